import StalecastControl
import StalecastStore
import Testing

@Suite("Gzip bodies", .timeLimit(.minutes(5)))
struct GzipBodyTests {
    private let path = ControlFixture.prefix
    private let template = Array(#"{"parameters":{"a":{"defaultValue":{"value":"zipped"}}}}"#.utf8)

    @Test(arguments: [[:], ["Content-Encoding": "gzip"], ["Content-Encoding": "identity"]])
    func gzipIsFoundByItsMagicBytes(headers: [String: String]) async throws {
        try await ControlFixture.serving { server async throws in
            let headers = headers.merging(["If-Match": "*"]) { $1 }
            let reply = try await server.send("PUT", path, headers, body: Gzip.pack(template))
            #expect(reply.status == 200)
            #expect(reply.text.contains("zipped"))
        }
    }

    @Test func plainTextDeclaredAsGzipIsAccepted() async throws {
        try await ControlFixture.serving { server async throws in
            let headers = ["If-Match": "*", "Content-Encoding": "gzip"]
            #expect(try await server.send("PUT", path, headers, body: template).status == 200)
        }
    }

    @Test func aBombIsStoppedAtTheCap() async throws {
        try await ControlFixture.serving { server async throws in
            let bomb = Gzip.pack([UInt8](repeating: 0x20, count: 64 << 20))
            let reply = try await server.send("PUT", path, ["If-Match": "*"], body: bomb)
            #expect(reply.status == 413)
            let small = Gzip.pack([UInt8](repeating: 0x20, count: 65 * 1024))
            #expect(try await server.send("POST", path + ":rollback", body: small).status == 413)
        }
    }

    @Test func exactlyTheCapIsAccepted() async throws {
        try await ControlFixture.serving({ $0.settings.maxTemplateBytes = 1000 }) { server async throws in
            let body = template + [UInt8](repeating: 0x20, count: 1000 - template.count)
            #expect(try await server.send("PUT", path, ["If-Match": "*"], body: Gzip.pack(body)).status == 200)
            #expect(try await server.send("PUT", path, ["If-Match": "*"], body: body).status == 200)
            #expect(try await server.send("PUT", path, ["If-Match": "*"], body: Gzip.pack(body + [0x20])).status == 413)
            #expect(try await server.send("PUT", path, ["If-Match": "*"], body: body + [0x20]).status == 413)
        }
    }

    @Test func damagedGzipIsAnInvalidArgument() async throws {
        try await ControlFixture.serving { server async throws in
            let packed = Gzip.pack(template)
            var flipped = packed
            flipped[packed.count - 6] ^= 0xFF
            for body in [Array(packed.dropLast(3)), flipped, packed + [1, 2, 3], [0x1F, 0x8B]] {
                let reply = try await server.send("PUT", path, ["If-Match": "*"], body: body)
                #expect(reply.status == 400)
                #expect(try reply.errorStatus == "INVALID_ARGUMENT")
            }
            #expect(server.store.head() == 0)
        }
    }

    @Test func chunkedGzipInSinglesIsInflated() async throws {
        try await ControlFixture.serving { server async throws in
            var request = Array(
                "PUT \(path) HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer \(ControlFixture.secret)\r\n".utf8)
            request += "If-Match: *\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n".utf8
            for byte in Gzip.pack(template) { request += Array("1\r\n".utf8) + [byte] + Array("\r\n".utf8) }
            request += "0\r\n\r\n".utf8
            #expect(try await server.replies(request).first?.status == 200)
        }
    }
}
