import StalecastWire
import Testing

import StalecastLoad

@Suite struct WebhookRequestReaderTests {
    private let reader = ReceiverLoop.RequestReader(namespace: .firebase)

    private func request(_ body: String, field: String = "Content-Length") -> [UInt8] {
        Array("POST / HTTP/1.1\r\nHost: a\r\n\(field): \(body.utf8.count)\r\nwebhook-id: msg_a\r\n\r\n\(body)".utf8)
    }

    private func message(_ version: Int, namespace: String = "firebase") -> String {
        #"{"type":"config.stale","data":{"namespace":"\#(namespace)","latestTemplateVersionNumber":"\#(version)"}}"#
    }

    private func read(_ bytes: [UInt8]) -> (byteCount: Int, version: Int64)? {
        bytes.withUnsafeBytes { reader.read($0) }
    }

    @Test(arguments: ["Content-Length", "content-length"]) func aRequestTellsItsVersion(field: String) throws {
        let bytes = request(message(42), field: field)
        #expect(try #require(read(bytes)) == (bytes.count, 42))
    }

    @Test func untilItIsWholeThereIsNone() {
        let bytes = request(message(7))
        for count in 0..<bytes.count { #expect(read(Array(bytes[..<count])) == nil, "\(count)") }
    }

    @Test func ofTwoTheFirstIsRead() throws {
        let first = request(message(7))
        #expect(try #require(read(first + request(message(8)))) == (first.count, 7))
    }

    @Test func otherNamespacesAndOtherMessagesCountNothing() {
        #expect(read(request(message(7, namespace: "firebase-server")))?.version == 0)
        #expect(read(request(#"{"type":"webhook.test","data":{"version":7}}"#))?.version == 0)
        #expect(read(request(""))?.version == 0)
    }
}
