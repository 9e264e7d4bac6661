import Glibc
import StalecastOutbound

/// What tells that a file is another one, or was written to, without reading it.
struct FileStamp: Sendable, Hashable {
    let name: String
    let identity: FileIdentity

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
        identity = FileIdentity(status)
    }
}
