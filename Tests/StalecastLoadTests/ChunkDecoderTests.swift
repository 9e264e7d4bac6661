import Testing

import StalecastLoad

struct ChunkDecoderTests {
    /// The payload of `parts`, and the decoder afterwards.
    private func decode(_ parts: [[UInt8]]) -> (payload: String, decoder: ChunkDecoder, taken: Int) {
        var (decoder, payload, taken) = (ChunkDecoder(), [UInt8](), 0)
        for part in parts {
            taken += part.withUnsafeBytes { decoder.decode($0) { payload += Array($0) } }
        }
        return (String(decoding: payload, as: UTF8.self), decoder, taken)
    }

    private func decode(_ text: String) -> (payload: String, decoder: ChunkDecoder, taken: Int) {
        decode([Array(text.utf8)])
    }

    @Test func framingIsTakenOffWhereverItIsCut() {
        ("5\r\nhello\r\nC;name=\"v;1\"\r\n, chunked\r\nw\r\n0\r\nTrailer: x\r\n\r\n").cutEverywhere { parts in
            let (payload, decoder, _) = decode(parts)
            #expect(payload == "hello, chunked\r\nw" && decoder.hasEnded && !decoder.isBroken)
        }
    }

    @Test func whatFollowsTheLastChunkIsLeftAlone() {
        let (payload, decoder, taken) = decode("2\r\nok\r\n0\r\n\r\nHTTP/1.1")
        #expect(payload == "ok" && decoder.hasEnded && taken == 12)
    }

    @Test func lengthsAreHexadecimalInEitherCase() {
        let text = String(repeating: "y", count: 0xAB)
        #expect(decode("aB\r\n\(text)\r\n").payload == text)
        #expect(decode("00ab\r\n\(text)\r\n").payload == text)
    }

    @Test(arguments: ["\r\n", "x\r\n", ";\r\n", "123456789\r\n", "1\r\nab\r\n"])
    func whatIsNoChunkIsRefused(_ text: String) {
        #expect(decode(text).decoder.isBroken)
        #expect(decode(text.singleBytes).decoder.isBroken)
    }
}
