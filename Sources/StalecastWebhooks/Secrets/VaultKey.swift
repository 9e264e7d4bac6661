import Crypto
import Foundation
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
        let text: String
        do {
            let data = try Data(contentsOf: URL(fileURLWithPath: path))
            guard data.count <= Self.maxFileBytes else { throw VaultKey.Problem.notAKey(path) }
            text = String(decoding: data, as: UTF8.self).trimmingWhitespace()
        } catch let problem as VaultKey.Problem {
            throw problem
        } catch {
            throw .unreadable(path, error.localizedDescription)
        }
        guard let bytes = Self.hexadecimal(text) ?? Base64.decode(text), bytes.count == Self.size else {
            throw .notAKey(path)
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
        guard mayCreate else { throw .missing(path) }
        let key = generate()
        try key.write(to: path)
        return key
    }

    /// `O_EXCL`: of two processes that start at once one loses, and says so, instead of replacing the other's key.
    private func write(to path: String) throws(VaultKey.Problem) {
        let descriptor = Foundation.open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .unwritable(path, String(cString: strerror(errno))) }
        let text = Array((Base64.encode(bytes) + "\n").utf8)
        let isWritten = Foundation.write(descriptor, text, text.count) == text.count && fsync(descriptor) == 0
        let reason = String(cString: strerror(errno))
        close(descriptor)
        if isWritten { return }
        unlink(path)
        throw .unwritable(path, reason)
    }

    private static func hexadecimal(_ text: String) -> [UInt8]? {
        let digits = text.utf8.compactMap { Character(UnicodeScalar($0)).hexDigitValue }
        guard digits.count == 2 * size, text.utf8.count == digits.count else { return nil }
        return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
    }
}

extension VaultKey {
    /// Reason why the key of the webhooks' secrets cannot be used; `description` is a sentence for the operator.
    package enum Problem: Error, Hashable, CustomStringConvertible {
        case unreadable(String, String)
        case unwritable(String, String)
        case notAKey(String)
        /// Secrets are stored, their key is gone.
        case missing(String)
        /// Another key than the one the stored secrets were sealed with.
        case wrongKey(String)

        package var description: String {
            switch self {
            case .unreadable(let path, let reason): "the key file \(path) cannot be read: \(reason)"
            case .unwritable(let path, let reason): "the key file \(path) cannot be written: \(reason)"
            case .notAKey(let path): "the key file \(path) does not hold 32 bytes in base64 or hexadecimal"
            case .missing(let path):
                "the key file \(path) is missing, but webhooks.sqlite holds secrets sealed with it; put it back, or move "
                    + "webhooks.sqlite and its -wal away to start without webhooks"
            case .wrongKey(let path):
                "the key file \(path) is not the key webhooks.sqlite was sealed with; put the right one there, or move "
                    + "webhooks.sqlite and its -wal away to start without webhooks"
            }
        }
    }
}
