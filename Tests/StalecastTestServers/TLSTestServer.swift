import Foundation

/// An openssl server that shows in its answers who the client says it is.
package final class TLSTestServer: Sendable {
    package let url: String
    private let certificates: TestCertificates
    private let process: ChildProcess

    package init() throws {
        certificates = try TestCertificates()
        let folder = certificates.folder
        let output = Pipe()
        process = try ChildProcess(
            "/usr/bin/openssl",
            [
                "s_server", "-accept", "127.0.0.1:0", "-cert", "\(folder)/server.pem", "-key",
                "\(folder)/server.key", "-CAfile", "\(folder)/ca.pem", "-verify", "1", "-www",
            ], output: output.fileHandleForWriting.fileDescriptor)
        var text = ""
        while !text.contains("ACCEPT") || !text.hasSuffix("\n") {
            let piece = output.fileHandleForReading.availableData
            precondition(!piece.isEmpty, "openssl says nothing more")
            text += String(decoding: piece, as: UTF8.self)
        }
        let port = text.split(separator: "\n").first { $0.hasPrefix("ACCEPT") }?.split(separator: ":").last
        url = "https://127.0.0.1:\(port ?? "0")/"
    }

    deinit { process.end() }

    package func file(_ name: String) -> String { certificates.file(name) }

    package func copy(_ name: String, to other: String) throws { try certificates.copy(name, to: other) }
}
