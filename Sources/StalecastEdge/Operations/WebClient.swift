import CWebClient
package import StalecastHTTP

/// The client for web pages: `Sources/CWebClient/web/stalecast.js`, embedded by the compiler.
package enum WebClient {
    /// The module without comments and indentation, which are most of its bytes to a browser.
    package static let file: EmbeddedFile = {
        let module = cwebclient_module()
        let bytes = UnsafeBufferPointer(start: module.bytes, count: module.count)
        return EmbeddedFile(name: "stalecast.js", bytes: stripped(bytes))
    }()

    /// Leaves out comments that have lines of their own, indentation, blanks beside operators, and line ends behind which a
    /// statement goes on or another one begins. No text and no expression of the module reaches over such a line.
    package static func stripped(_ text: some Sequence<UInt8>) -> [UInt8] {
        var result: [UInt8] = []
        for line in Array(text).split(separator: UInt8(ascii: "\n")) {
            let line = line.drop { $0 == UInt8(ascii: " ") }
            guard let last = line.last, !line.starts(with: "//".utf8) else { continue }
            result += tightened(Array(line))
            if !"{(,;".utf8.contains(last) { result.append(UInt8(ascii: "\n")) }
        }
        return result
    }

    /// A line without the blanks beside operators, where they are not part of a text or of a regular expression. No
    /// operator of the module is followed by a sign.
    private static func tightened(_ line: [UInt8]) -> [UInt8] {
        var result: [UInt8] = []
        var index = 0
        while index < line.count {
            let byte = line[index]
            let isExpression = byte == UInt8(ascii: "/") && result.last.map { "(,=:[!&|?{;".utf8.contains($0) } ?? true
            if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "`") || isExpression {
                let end = end(of: line, from: index)
                result += line[index..<end]
                index = end
                continue
            }
            index += 1
            let isBlank = byte == UInt8(ascii: " ")
            let next = index < line.count ? line[index] : byte
            if isBlank, result.last.map({ operators.contains($0) }) ?? true || operators.contains(next) { continue }
            result.append(byte)
        }
        return result
    }

    private static let operators = Array("=+-*/<>?:,;{}()[]&|!".utf8)

    /// Index behind the text or regular expression that begins at `start`.
    private static func end(of line: [UInt8], from start: Int) -> Int {
        var index = start + 1
        var isInClass = false
        while index < line.count {
            switch line[index] {
            case UInt8(ascii: "\\"): index += 1
            case UInt8(ascii: "["): isInClass = true
            case UInt8(ascii: "]"): isInClass = false
            case line[start] where !isInClass || line[start] != UInt8(ascii: "/"): return index + 1
            default: break
            }
            index += 1
        }
        return line.count
    }

    /// Any page may load it: it holds no data, and the requests that it makes are checked like all others.
    static func response(to head: RequestHead) -> FrontResponse {
        let answer = file.answer(to: head)
        var response = FrontResponse(
            status: answer.status, type: answer.contentType, fields: answer.fields, body: answer.body)
        response.caching = "public, max-age=300"
        response.isForAnyPage = true
        return response
    }
}
