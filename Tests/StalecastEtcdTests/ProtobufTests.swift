import StalecastEtcd
import StalecastTestSupport
import Testing

@Suite struct ProtobufTests {
    @Test func whatIsWrittenIsRead() throws {
        var writer = ProtobufWriter()
        let numbers: [Int64] = [0, 1, 127, 128, 300, .max, -1, .min]
        for number in numbers { writer.number(64, number) }
        writer.bytes(3, [UInt8](repeating: 7, count: 200))
        writer.message(5) { $0.flag(1, true) }
        var reader = ProtobufReader(writer.bytes)
        for number in numbers {
            let next = try #require(try reader.next())
            #expect(next.field == 64 && next.value.int64 == number)
        }
        #expect(try reader.next()?.value.slice.count == 200)
        let inner = try #require(try reader.next())
        #expect(inner.field == 5 && Array(inner.value.slice) == [8, 1])
        #expect(try reader.next() == nil)
    }

    /// Written by hand after etcd's `rpc.proto`: header, succeeded, one range with `a` = `b`.
    @Test func anAnswerIsRead() throws {
        let header: [UInt8] = [0x0A, 0x06, 0x08, 0x01, 0x10, 0x02, 0x18, 0x05]
        let keyValue: [UInt8] = [0x0A, 0x01, 0x61, 0x10, 0x02, 0x18, 0x03, 0x20, 0x02, 0x2A, 0x01, 0x62]
        let range: [UInt8] = [0x12, UInt8(keyValue.count)] + keyValue + [0x20, 0x01]
        let operation: [UInt8] = [0x0A, UInt8(range.count)] + range
        let result = try EtcdTransaction.Result(header + [0x10, 0x01, 0x1A, UInt8(operation.count)] + operation)
        #expect(result.succeeded && result.revision == 5)
        let found = try #require(result.found.first?.first)
        #expect(found.key == Array("a".utf8) && found.value == Array("b".utf8))
        #expect(found.createRevision == 2 && found.modRevision == 3)
    }

    /// Reads or refuses each message of a member.
    @Test func noiseNeverTraps() {
        var random = SeededRandom(seed: 1)
        for _ in 0..<20_000 {
            let noise = (0..<Int.random(in: 0...40, using: &random)).map { _ in
                // Small numbers are keys and lengths more often.
                UInt8.random(in: 0...(Bool.random(using: &random) ? 20 : 255), using: &random)
            }
            _ = try? EtcdTransaction.Result(noise)
            _ = try? EtcdWatchResponse(noise)
            _ = try? EtcdStatus(noise)
        }
        for broken: [UInt8] in [
            [0x0A], [0x0A, 0xFF], [0x08] + [UInt8](repeating: 0xFF, count: 11), [0x0B], [0x00, 0x00],
        ] {
            #expect(throws: ProtobufError.self) { try EtcdStatus(broken) }
        }
    }

    @Test func readingIsLinear() throws {
        try expectLinear(upTo: 40_000) { count in
            var writer = ProtobufWriter()
            for _ in 0..<count { writer.bytes(11, [0x12, 0x03, 0x0A, 0x01, 0x61]) }
            return writer.bytes
        } _: {
            _ = try EtcdWatchResponse($0)
        }
    }

    @Test func endpointsAreReadOrRefused() {
        #expect(EtcdEndpoint("http://127.0.0.11:2379")?.description == "http://127.0.0.11:2379")
        #expect(EtcdEndpoint("https://etcd.example:443/")?.description == "https://etcd.example:443")
        #expect(EtcdEndpoint("[::1]:2379")?.host == "::1")
        #expect(EtcdEndpoint("a")?.port == 2379)
        for text in ["", "http://", "a:b", "a:0", "a:70000", "[::1", "http://a/b"] {
            #expect(EtcdEndpoint(text) == nil, "\(text)")
        }
    }

    @Test func onlyWhatCannotHaveHappenedIsCertain() {
        #expect(EtcdFailure.notSent("").isCertain)
        #expect(EtcdFailure.status(3, "etcdserver: request is too large").isCertain)
        #expect(EtcdFailure.status(14, "etcdserver: no leader").isCertain)
        for message in [
            "etcdserver: request timed out", "etcdserver: leader changed", "etcdserver: server stopped",
            "raft proposal dropped", "etcdserver: mvcc: database space exceeded", "",
        ] { #expect(!EtcdFailure.status(14, message).isCertain, "\(message)") }
        #expect(!EtcdFailure.noAnswer("").isCertain)
    }
}
