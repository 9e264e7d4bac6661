import Foundation

/// Certificates of one test's own authority, in a temporary folder: `ca.pem`, `server.pem`, `client.pem` with their
/// keys (`.key`), and `stranger.pem`, an authority that no side trusts.
package final class TestCertificates: Sendable {
    package let folder: String

    /// - Parameter address: of the server.
    package init(address: String = "127.0.0.1") throws {
        folder = NSTemporaryDirectory() + "stalecast-tls-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try Self.authority("ca", folder)
        try Self.authority("stranger", folder)
        try Self.certify("server", folder, address)
        try Self.certify("client", folder, address)
    }

    deinit {
        try? FileManager.default.removeItem(atPath: folder)  // a leftover does no harm
    }

    package func file(_ name: String) -> String { "\(folder)/\(name)" }

    package func copy(_ name: String, to other: String) throws {
        try Data(contentsOf: URL(fileURLWithPath: file(name)))
            .write(to: URL(fileURLWithPath: file(other)), options: .atomic)
    }

    private static let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]

    private static func authority(_ name: String, _ folder: String) throws {
        try openssl(
            ["req", "-x509"] + key + [
                "-subj", "/CN=\(name)", "-addext", "basicConstraints=critical,CA:TRUE", "-keyout",
                "\(folder)/\(name).key", "-out", "\(folder)/\(name).pem",
            ])
    }

    private static func certify(_ name: String, _ folder: String, _ address: String) throws {
        try openssl(
            ["req", "-x509"] + key + [
                "-CA", "\(folder)/ca.pem", "-CAkey", "\(folder)/ca.key", "-subj", "/CN=\(name)-of-ours", "-addext",
                "basicConstraints=critical,CA:FALSE", "-addext", "subjectAltName=IP:\(address)", "-keyout",
                "\(folder)/\(name).key", "-out", "\(folder)/\(name).pem",
            ])
    }

    private static func openssl(_ words: [String]) throws {
        let code = try ChildProcess("/usr/bin/openssl", words).wait()
        precondition(code == 0, "openssl \(words) failed")
    }
}
