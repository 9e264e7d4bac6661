import Crypto
import Foundation
import StalecastOutbound
import StalecastWire

/// The key of a ``SecretVault``: 32 bytes, in a file as base64 or hexadecimal.
package struct VaultKey: Sendable {
    let bytes: [UInt8]

    private static let size = 32
    /// A larger file is no key.
    private static let maxFileBytes = 4096

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// A new key from the system's secure generator.
    package static func generate() -> VaultKey {
        VaultKey(SymmetricKey(size: .bits256).withUnsafeBytes(Array.init))
    }

    /// Reads the key at `path`; blocks on the file.
    package init(readFrom path: String) throws(VaultKey.Problem) {
        let file: LocalFile
        do { file = try LocalFile(path: path, maxBytes: Self.maxFileBytes) } catch {
            throw VaultKey.Problem(description: "the key file \(error)")
        }
        let text = String(decoding: file.bytes, as: UTF8.self).trimmingWhitespace()
        guard let bytes = Self.hexadecimal(text) ?? Base64.decode(text), bytes.count == Self.size else {
            throw VaultKey.Problem(
                description: "the key file \(path) does not hold 32 bytes in base64 or hexadecimal")
        }
        self.init(bytes)
    }

    /// Tells this key from any other, for a named purpose, and says nothing of it: 64 hexadecimal digits.
    package func check(for purpose: String) -> String {
        let code = HMAC<SHA256>.authenticationCode(for: Data(purpose.utf8), using: SymmetricKey(data: bytes))
        return code.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    /// Reads the key at `path`, or makes one there, mode 0600, when there is no file. Blocks on the file.
    ///
    /// - Parameter mayCreate: false when sealed texts exist already: a new key could not open them.
    package static func load(from path: String, mayCreate: Bool) throws(VaultKey.Problem) -> VaultKey {
        if FileManager.default.fileExists(atPath: path) { return try VaultKey(readFrom: path) }
        guard mayCreate else {
            throw VaultKey.Problem(
                path, "is missing, but webhooks.sqlite holds secrets sealed with it; put it back")
        }
        let key = generate()
        try key.write(to: path)
        return key
    }

    /// `O_EXCL`: of two processes that start at once one loses, and says so, instead of replacing the other's key.
    private func write(to path: String) throws(VaultKey.Problem) {
        let descriptor = Foundation.open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        func problem() -> Problem {
            Problem(description: "the key file \(path) cannot be written: \(String(cString: strerror(errno)))")
        }
        guard descriptor >= 0 else { throw problem() }
        let text = Array((Base64.encode(bytes) + "\n").utf8)
        let isWritten = Foundation.write(descriptor, text, text.count) == text.count && fsync(descriptor) == 0
        // Reads errno before `close` and `unlink`, which may change it.
        let failure = problem()
        close(descriptor)
        if isWritten { return }
        unlink(path)
        throw failure
    }

    private static func hexadecimal(_ text: String) -> [UInt8]? {
        let digits = text.utf8.compactMap { Character(UnicodeScalar($0)).hexDigitValue }
        guard digits.count == 2 * size, text.utf8.count == digits.count else { return nil }
        return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
    }
}

extension VaultKey {
    /// Reason why the key of the webhooks' secrets cannot be used; `description` is a sentence for the operator.
    package struct Problem: Error, Hashable, CustomStringConvertible {
        package let description: String

        init(description: String) { self.description = description }

        /// Problem of the key of a database that holds secrets.
        init(_ path: String, _ problem: String) {
            description =
                "the key file \(path) \(problem), or move webhooks.sqlite and its -wal away to start without webhooks"
        }
    }
}
