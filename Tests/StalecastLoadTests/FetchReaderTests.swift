import StalecastTemplate
import StalecastWire
import Testing

import StalecastLoad

@Suite struct FetchReaderTests {
    private let body =
        #"{"entries":{"a":"Version V 1"},"state":"UPDATE","templateVersion":"17","personalizationMetadata":{}}"#

    private var answer: String {
        "HTTP/1.1 200 OK\r\nContent-Length: \(body.utf8.count)\r\nETag: x\r\n\r\n\(body)"
    }

    private func read(_ parts: [[UInt8]]) -> FetchReader.Progress {
        var reader = FetchReader()
        var progress = FetchReader.Progress.incomplete
        for part in parts where !part.isEmpty { progress = part.withUnsafeBytes { reader.receive($0) } }
        return progress
    }

    @Test func anAnswerIsTheSameWhereverItIsCut() throws {
        guard case .answered(let whole) = read([Array(answer.utf8)]) else { throw Cut() }
        #expect(whole.status == 200 && whole.version == 17 && whole.byteCount == body.utf8.count)
        answer.cutEverywhere { #expect(read($0) == .answered(whole)) }
        #expect(read(answer.singleBytes) == .answered(whole))
    }

    private struct Cut: Error {}

    @Test func chunkedAnswersAreReadAsWell() {
        let chunked =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + Transcript.rechunked(body, size: 7) + "0\r\n\r\n"
        guard case .answered(let plain) = read([Array(answer.utf8)]) else { return #expect(Bool(false)) }
        chunked.cutEverywhere { #expect(read($0) == .answered(plain)) }
    }

    @Test func oneByteMoreIsAnotherHashAndTooManyBytesAreBroken() {
        var (one, other) = (RunningHash(), RunningHash())
        Array("abcdefghi".utf8).withUnsafeBytes { one.add($0) }
        Array("abcdefghj".utf8).withUnsafeBytes { other.add($0) }
        #expect(one != other)
        #expect(read([Array((answer + "x").utf8)]) == .broken)
        #expect(read([Array("HTTP/1.1 200 OK\r\n\r\nx".utf8)]) == .broken)
    }

    @Test func twoAnswersOnOneConnectionAreTold() {
        var reader = FetchReader()
        let bytes = Array(answer.utf8)
        let first = bytes.withUnsafeBytes { reader.receive($0) }
        let second = bytes.withUnsafeBytes { reader.receive($0) }
        #expect(first == second && first != .incomplete)
    }
}

@Suite struct FetchTemplateTests {
    @Test func everyContextHasAnAnswerOfItsOwnAndTheSizeAsked() throws {
        let found = try JSONValue.parse(#"{"conditions":[],"parameters":{"mine":{"defaultValue":{"value":"1"}}}}"#.utf8)
        let made = FetchTemplate(outcomes: 20, answerBytes: 100 << 10)
        let document = made.document(found, round: 3)
        let template = try Template(validating: document, kind: .client)
        let compiled = CompiledTemplate(template)
        var answers: Set<Int> = []
        for context in 0..<20 {
            let request = try JSONValue.parse(made.requestBody(context: context))
            let members = compiled.values(for: compiled.outcome(for: try EvaluationContext(json: request))).members
            let text = JSONValue.object(members).text()
            #expect((95 << 10)...(105 << 10) ~= text.utf8.count)
            #expect(members["entries"]?["mine"] == "1")
            answers.insert(text.hashValue)
        }
        #expect(answers.count == 20)
    }
}
