import Glibc
import StalecastHTTP
import Testing

/// Records of our own against those that RFC 8448 §3 shows, byte for byte.
@Suite struct TLSRecordsTests {
    /// TLS_AES_128_GCM_SHA256.
    private static let suite: UInt16 = 0x1301
    private static let server = bytes(
        "a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643")
    private static let client = bytes(
        "9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5")
    private static let text = Array(UInt8(0)..<50)
    /// The server's second record, after its ticket, and its last.
    private static let said = bytes(
        """
        17030300432e937e11ef4ac740e538ad36005fc4a46932fc3225d05f82aa1b36e30efaf97d90e6dffc602dcb501a59a8fcc49c4b\
        f2e5f0a21c0047c2abf332540dd032e167c2955d
        """)
    private static let goodbye = bytes("1703030013b58fd67166ebf599d24720cfbe7efa7a8864a9")
    /// The client's first record, and its last.
    private static let heard = bytes(
        """
        1703030043a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab3f2b9819a8a5b46b395bd54a9a20441e2b62974e1f\
        5a6292a2977014bd1e3deae63aeebb21694915e4
        """)
    private static let leaves = bytes("1703030013c9872760655666b74d7ff1153efd6db6d0b0e3")

    private let recordCipher = TLSRecordCipher()
    private let ends: (own: Int32, peer: Int32)

    init() {
        var pair: [Int32] = [0, 0]
        socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &pair)
        ends = (pair[0], pair[1])
    }

    private static func bytes(_ hex: String) -> [UInt8] {
        stride(from: 0, to: hex.utf8.count, by: 2).map { place in
            UInt8(hex.dropFirst(place).prefix(2), radix: 16)!
        }
    }

    private func make(written: UInt64, read: UInt64 = 0, suite: UInt16 = suite) -> TLSRecords? {
        Self.server.withUnsafeBytes { writing in
            Self.client.withUnsafeBytes { reading in
                TLSRecords(suite: suite, written: written, read: read, writing: writing, reading: reading)
            }
        }
    }

    private func received() -> [UInt8] {
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        let count = recv(ends.peer, &buffer, buffer.count, Int32(MSG_DONTWAIT))
        return Array(buffer.prefix(max(0, count)))
    }

    private func hear(_ bytes: [UInt8]) { _ = send(ends.peer, bytes, bytes.count, 0) }

    @Test func whatIsSealedIsWhatTheStandardShows() throws {
        let records = try #require(make(written: 1))
        let taken = Self.text.withUnsafeBytes { records.send($0.baseAddress!, $0.count, to: ends.own, recordCipher) }
        #expect(taken == 50)
        #expect(received() == Self.said)
        records.sayGoodbye(to: ends.own, recordCipher)
        #expect(received() == Self.goodbye)
        records.free()
    }

    @Test func whatTheStandardShowsIsOpened() throws {
        let records = try #require(make(written: 3))
        #expect(records.read(from: ends.own, recordCipher) == 0)
        hear(Self.heard.dropLast())
        #expect(records.read(from: ends.own, recordCipher) == 0, "a record is looked at when it is whole")
        hear(Self.heard.suffix(1) + Self.leaves)
        #expect(records.read(from: ends.own, recordCipher) == Self.heard.count)
        #expect(records.read(from: ends.own, recordCipher) == -1, "the client has said goodbye")
        #expect(received().isEmpty)
        records.free()
    }

    @Test(arguments: ["number", "bit", "type", "version", "length", "short"])
    func whatIsNotTheClientsEndsIt(how: String) throws {
        let records = try #require(make(written: 3, read: how == "number" ? 1 : 0))
        var bytes = Self.heard
        switch how {
        case "bit": bytes[20] ^= 1
        case "type": bytes[0] = 22
        case "version": bytes[2] = 4
        case "length": bytes[3] = 0xFF
        case "short": (bytes[3], bytes[4]) = (0, 16)
        default: break
        }
        hear(bytes)
        #expect(records.read(from: ends.own, recordCipher) == -1)
        #expect(received().count == 24, "an alert says why")
        records.free()
    }

    @Test func aRecordIsNeverSealedTwice() throws {
        var size: Int32 = 4608
        setsockopt(ends.own, SOL_SOCKET, SO_SNDBUF, &size, 4)
        let (records, whole) = (try #require(make(written: 0)), try #require(make(written: 0)))
        let long = (0..<200_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        var (pieces, place, calls): ([UInt8], Int, Int) = ([], 0, 0)
        while place < long.count {
            let taken = long.withUnsafeBytes {
                records.send($0.baseAddress! + place, $0.count - place, to: ends.own, recordCipher)
            }
            try #require(taken >= 0)
            (place, calls) = (place + taken, calls + 1)
            try #require(calls < 100_000, "it gets nowhere")
            pieces += received()
        }
        records.sayGoodbye(to: ends.own, recordCipher)
        pieces += received()
        // The same records when nothing has to wait.
        var big: Int32 = 1 << 20
        setsockopt(ends.own, SOL_SOCKET, SO_SNDBUF, &big, 4)
        var expected: [UInt8] = []
        for start in stride(from: 0, to: long.count, by: 16_384) {
            let part = Array(long[start..<min(start + 16_384, long.count)])
            _ = part.withUnsafeBytes { whole.send($0.baseAddress!, $0.count, to: ends.own, recordCipher) }
            expected += received()
        }
        whole.sayGoodbye(to: ends.own, recordCipher)
        expected += received()
        #expect(calls > 13, "the socket took everything at once: nothing was shown")
        #expect(pieces == expected)
        records.free()
        whole.free()
    }

    @Test func aKeyHasItsLimit() throws {
        let records = try #require(make(written: (1 << 24) - 1))
        func say() -> [UInt8] {
            _ = Self.text.withUnsafeBytes { records.send($0.baseAddress!, $0.count, to: ends.own, recordCipher) }
            return received()
        }
        #expect(say().count == 72)
        #expect(say().count == 72 + 27, "the news of new keys goes first")
        #expect(say().count == 72)
        #expect(make(written: 1 << 24) == nil)
        #expect(make(written: 1, suite: 0x1302) == nil, "these secrets are too short for it")
        #expect(make(written: 1, suite: 0x1304) == nil)
        records.free()
    }
}
