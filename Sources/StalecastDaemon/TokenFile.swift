import Foundation
package import StalecastAccess
import StalecastControl
import StalecastWire

/// The bearer token of Control: 32 random bytes, kept as a hash. Its plain text is written once, at first start, to
/// `control.token`, where the CLI finds it; an operator may move it away.
package struct TokenFile {
    /// SHA-256 of the token's UTF-8 text.
    package let digest: SecretDigest
    /// Warnings for the operator, sentences without secrets.
    package private(set) var warnings: [String] = []

    /// Fewer characters than these can be guessed.
    static let leastLength = 16

    private static let plainName = "control.token"
    private static let digestName = "control.token.sha256"

    /// Reads the token of `directory`, or makes one; or takes that of `file`. Operators find it in the service's
    /// runtime directory.
    package static func load(directory: String, file: String?) throws(StartError) -> TokenFile {
        let token = try read(directory: directory, file: file)
        RuntimeDirectory.current?.share(file ?? "\(directory)/\(plainName)", as: plainName)
        return token
    }

    private static func read(directory: String, file: String?) throws(StartError) -> TokenFile {
        if let file { return try given(file) }
        let (digestPath, plainPath) = ("\(directory)/\(digestName)", "\(directory)/\(plainName)")
        guard FileManager.default.fileExists(atPath: digestPath) else {
            guard FileManager.default.fileExists(atPath: plainPath) else { return try make(in: directory) }
            let token = try given(plainPath)
            try (token.digest.hexadecimal + "\n").writePrivately(to: digestPath)
            return token
        }
        var token = try TokenFile(hexadecimal: read(digestPath), path: digestPath)
        if !FileManager.default.fileExists(atPath: plainPath) {
            token.warnings.append(
                "\(plainPath) is not there; the token it held is still the right one. If there is no copy, "
                    + "`stalecast token rotate` makes a new one")
            // A copy that cannot be read misleads no client.
        } else if let plain = try? read(plainPath), TokenFile(of: plain).digest != token.digest {
            token.warnings.append(
                "\(plainPath) holds another token than the daemon takes; `stalecast token rotate` makes a new one")
        }
        return token
    }

    /// Makes a new token in `directory` in place of the one that was there. A running daemon takes it at SIGHUP.
    package static func rotate(directory: String) throws(StartError) { _ = try make(in: directory) }

    private static func make(in directory: String) throws(StartError) -> TokenFile {
        let plain = newToken()
        let token = TokenFile(of: plain)
        // The digest last: until then the former token holds.
        try (plain + "\n").writePrivately(to: "\(directory)/\(plainName)")
        try (token.digest.hexadecimal + "\n").writePrivately(to: "\(directory)/\(digestName)")
        return token
    }

    /// A token that another program has chosen.
    private static func given(_ path: String) throws(StartError) -> TokenFile {
        let plain = try read(path)
        guard plain.count >= leastLength else {
            throw StartError(
                "the token in \(path) has \(plain.count) characters, and fewer than \(leastLength) can be guessed; "
                    + "write a longer one, for example that of `head -c 32 /dev/urandom | base64`")
        }
        var token = TokenFile(of: plain)
        // A file whose attributes cannot be read was still read itself, so only the warning is left out.
        let facts = try? FileManager.default.attributesOfItem(atPath: path)
        if let mode = facts?[.posixPermissions] as? Int, mode & 0o007 != 0 {
            token.warnings.append("all users of this machine may read the control token; `chmod o= \(path)`")
        }
        return token
    }

    private init(of plain: String) { digest = SecretDigest(of: plain) }

    private init(hexadecimal text: String, path: String) throws(StartError) {
        guard let digest = SecretDigest(hexadecimal: text) else {
            throw StartError("\(path) does not hold a SHA-256 in hexadecimal; remove it to have a new token made")
        }
        self.digest = digest
    }

    private static func newToken() -> String {
        var generator = SystemRandomNumberGenerator()
        let bytes = (0..<32).map { _ in UInt8.random(in: 0...255, using: &generator) }
        return Base64URL.encode(bytes)
    }

    private static func read(_ path: String) throws(StartError) -> String {
        do {
            let text = try String(contentsOfFile: path, encoding: .utf8).trimmingCharacters(in: .whitespacesAndNewlines)
            if text.isEmpty { throw StartError("the token file \(path) is empty") }
            return text
        } catch let error as StartError {
            throw error
        } catch {
            throw StartError("the token file \(path) cannot be read: \(error.localizedDescription)")
        }
    }
}

extension String {
    /// Writes a file that only its owner may read, replaced as a whole.
    ///
    /// - Parameter mode: of the file; its group may be let in where others may know what it holds.
    func writePrivately(to path: String, mode: Int = 0o600) throws(StartError) {
        // The number keeps two processes of one directory apart: `token rotate` runs beside the daemon.
        let temporary = "\(path).\(ProcessInfo.processInfo.processIdentifier).new"
        let code = WholeFile.replace(path, with: Array(utf8), through: temporary) { file in
            // Root writes for the service's user, who owns the directory and must be able to read the file.
            fchmod(file, mode_t(mode)) == 0 && Self.giveToOwner(of: (path as NSString).deletingLastPathComponent, file)
        }
        if code != 0 { throw StartError("\(path) cannot be written: \(String(cString: strerror(code)))") }
    }

    /// Gives a file that root made to the owner of its directory; does nothing for other users.
    private static func giveToOwner(of directory: String, _ file: Int32) -> Bool {
        guard geteuid() == 0 else { return true }
        var facts = stat()
        return stat(directory.isEmpty ? "." : directory, &facts) == 0 && fchown(file, facts.st_uid, facts.st_gid) == 0
    }
}
