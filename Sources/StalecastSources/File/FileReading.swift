import Dispatch
import Glibc
import StalecastOutbound
import StalecastStore
import StalecastTemplate
package import StalecastWire

/// Finds and reads the file, or the files of the directory, at a path.
struct FileReading: Sendable {
    let path: String
    let reading: ContentReading
    let kind: TemplateKind
    /// Most bytes of all files together.
    let maxBytes: Int

    private static let extensions = ["json", "yaml", "yml"]

    /// Files that are there now.
    struct Inventory: Sendable, Hashable {
        /// Stamps by name; one for a path that is a file.
        let stamps: [Stamp]
        let isDirectory: Bool

        /// Time since any of them changed last, by the clock that file systems use; negative for times to come.
        var age: Duration {
            var now = timespec()
            clock_gettime(CLOCK_REALTIME, &now)
            return Duration(time: now) - (stamps.map(\.changed).max() ?? .zero)
        }

        var bytes: Int64 { stamps.map(\.identity).bytes }
    }

    /// Files and directories to watch, whatever is there.
    func watched() -> WatchedFiles {
        var watched = WatchedFiles()
        let walk = PathWalk(path)
        watched.add(walk)
        guard let target = walk.target, Self.isDirectory(target) else { return watched }
        watched.add(whole: target)
        // A directory that cannot be listed is watched, and reported by the read.
        for name in (try? Self.names(in: target)) ?? [] { watched.add(PathWalk("\(target)/\(name)")) }
        return watched
    }

    /// - Throws: ``OriginProblem`` when nothing is there.
    func inventory() throws(OriginProblem) -> Inventory {
        guard Self.isDirectory(path) else {
            return Inventory(stamps: [try Stamp(of: path, name: path)], isDirectory: false)
        }
        let names: [String]
        do { names = try Self.names(in: path) } catch {
            throw OriginProblem(.unreadable, "\(path) cannot be listed: \(String(cString: strerror(error.code)))")
        }
        guard !names.isEmpty else {
            throw OriginProblem(.notFound, "\(path) holds no file that ends with .json, .yaml or .yml")
        }
        let stamps = try names.map { name throws(OriginProblem) in try Stamp(of: "\(path)/\(name)", name: name) }
        return Inventory(stamps: stamps, isDirectory: true)
    }

    func read(_ inventory: Inventory) throws(OriginProblem) -> OriginContent {
        guard inventory.bytes <= maxBytes else { throw tooLarge(path) }
        guard inventory.isDirectory else {
            return try reading.read(try bytes(of: path), contentType: Self.type(of: path), kind: kind)
        }
        if let pointer = reading.version {
            throw OriginProblem(
                .invalidContent,
                "\(path) is a directory, whose files have no version together; leave versionPointer (\(pointer)) out")
        }
        return OriginContent(template: try reading.template(try merged(inventory), kind), version: nil)
    }

    /// The document that all files of a directory are together.
    fileprivate func merged(_ inventory: Inventory) throws(OriginProblem) -> JSONValue {
        var merge = TemplateMerge()
        for stamp in inventory.stamps {
            do throws(OriginProblem) {
                let body = try bytes(of: "\(path)/\(stamp.name)")
                let document = try reading.document(body, Self.type(of: stamp.name))
                try merge.add(try reading.part(of: document), from: stamp.name)
            } catch {
                throw OriginProblem(error.reason, "\(stamp.name): \(error.description)")
            }
        }
        return merge.document
    }

    // MARK: Files

    private func bytes(of path: String) throws(OriginProblem) -> [UInt8] {
        do {
            return try LocalFile(path: path, maxBytes: maxBytes).bytes
        } catch  where error.isMissing {
            throw OriginProblem(.notFound, error.description)
        } catch {
            throw OriginProblem(.unreadable, error.description)
        }
    }

    fileprivate func tooLarge(_ path: String) -> OriginProblem {
        OriginProblem(.tooLarge, "\(path) has more than \(maxBytes) bytes; raise the source's maxBytes")
    }

    private static func type(of name: String) -> String? {
        if name.hasSuffix(".yaml") || name.hasSuffix(".yml") { return "application/yaml" }
        return name.hasSuffix(".json") ? "application/json" : nil
    }

    fileprivate static func isDirectory(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
    }

    /// True when the name is a template's; hidden files and those of editors are not.
    static func isTemplate(_ name: String) -> Bool {
        extensions.contains { name.hasSuffix(".\($0)") } && !name.hasPrefix(".") && !name.hasPrefix("#")
    }

    /// Templates in a directory, sorted.
    private static func names(in directory: String) throws(FileOperation.Failure) -> [String] {
        try FileOperation.names(in: directory).filter(isTemplate).sorted()
    }

    /// Facts that tell, without reading it, that a file is another one, or was written to.
    struct Stamp: Sendable, Hashable {
        let name: String
        let identity: LocalFile.Identity

        /// The later of the two times at which content and properties changed, since 1970.
        var changed: Duration { max(identity.modified, identity.changed) }

        /// - Parameter name: as it is shown to people.
        /// - Throws: ``OriginProblem`` for what is not there or is no regular file.
        init(of path: String, name: String) throws(OriginProblem) {
            var status = stat()
            guard stat(path, &status) == 0 else {
                let reason: OriginProblem.Reason = errno == ENOENT || errno == ENOTDIR ? .notFound : .unreadable
                throw OriginProblem(reason, "\(name) cannot be read: \(String(cString: strerror(errno)))")
            }
            guard status.st_mode & S_IFMT == S_IFREG else {
                throw OriginProblem(.unreadable, "\(name) is no regular file")
            }
            self.init(name: name, status)
        }

        init(name: String, _ status: stat) {
            self.name = name
            identity = LocalFile.Identity(status)
        }
    }
}

/// A folder with a template in several files, read as a source of kind `file` reads it.
package enum TemplateFolder {
    package static func isFolder(_ path: String) -> Bool { FileReading.isDirectory(path) }

    /// The one document that the files are together, not validated. Blocks on the files.
    package static func document(_ path: String) throws(Unreadable) -> JSONValue {
        let reading = FileReading(path: path, reading: ContentReading(), kind: .client, maxBytes: YAMLContent.maxBytes)
        do throws(OriginProblem) {
            let inventory = try reading.inventory()
            guard inventory.bytes <= reading.maxBytes else { throw reading.tooLarge(path) }
            return try reading.merged(inventory)
        } catch {
            throw Unreadable(description: error.description)
        }
    }

    /// Reason why the files are no document; a sentence that names the file.
    package struct Unreadable: Error, Hashable, CustomStringConvertible {
        package let description: String
    }
}
