import Crypto
import Foundation
import StalecastWire

/// The bearer token of Control: 32 random bytes, kept as a hash. Its plain text is written once, at first start, to
/// `control.token`, where the CLI finds it; an operator may move it away.
struct TokenFile {
    /// SHA-256 of the token's UTF-8 text.
    let digest: [UInt8]

    private static let plainName = "control.token"
    private static let digestName = "control.token.sha256"

    /// Reads the token of `directory`, or makes one; or takes that of `file`.
    static func load(directory: String, file: String?) throws(StartError) -> TokenFile {
        if let file { return TokenFile(of: try read(file)) }
        let digestPath = "\(directory)/\(digestName)"
        if FileManager.default.fileExists(atPath: digestPath) {
            return try TokenFile(hexadecimal: read(digestPath), path: digestPath)
        }
        let plainPath = "\(directory)/\(plainName)"
        let isKnown = FileManager.default.fileExists(atPath: plainPath)
        let plain = isKnown ? try read(plainPath) : newToken()
        let token = TokenFile(of: plain)
        if !isKnown { try PrivateFile.write(plain + "\n", to: plainPath) }
        try PrivateFile.write(token.hexadecimal + "\n", to: digestPath)
        return token
    }

    private init(of plain: String) { digest = Array(SHA256.hash(data: Data(plain.utf8))) }

    private init(hexadecimal text: String, path: String) throws(StartError) {
        let digits = text.compactMap(\.hexDigitValue)
        guard digits.count == 64 else {
            throw StartError("\(path) does not hold a SHA-256 in hexadecimal; remove it to have a new token made")
        }
        digest = stride(from: 0, to: 64, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
    }

    private var hexadecimal: String {
        digest.map { byte in String(byte >> 4, radix: 16) + String(byte & 15, radix: 16) }.joined()
    }

    private static func newToken() -> String {
        var generator = SystemRandomNumberGenerator()
        let bytes = (0..<32).map { _ in UInt8.random(in: 0...255, using: &generator) }
        let base64 = Data(bytes).base64EncodedString()
        return base64.replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
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

/// Files only their owner may read, replaced as a whole.
enum PrivateFile {
    static func write(_ text: String, to path: String) throws(StartError) {
        let temporary = "\(path).\(ProcessInfo.processInfo.processIdentifier).new"
        let created = FileManager.default.createFile(
            atPath: temporary, contents: Data(text.utf8), attributes: [.posixPermissions: 0o600])
        guard created, rename(temporary, path) == 0 else {
            throw StartError("\(path) cannot be written: \(String(cString: strerror(errno)))")
        }
    }
}
