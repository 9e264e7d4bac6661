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

    /// Leaves out comments that have lines of their own, indentation, and line ends behind which a statement goes on
    /// or another one begins. No text and no expression of the module reaches over such a line.
    package static func stripped(_ text: some Sequence<UInt8>) -> [UInt8] {
        var result: [UInt8] = []
        for line in Array(text).split(separator: UInt8(ascii: "\n")) {
            let line = line.drop { $0 == UInt8(ascii: " ") }
            guard let last = line.last, !line.starts(with: "//".utf8) else { continue }
            result += line
            if !"{(,;".utf8.contains(last) { result.append(UInt8(ascii: "\n")) }
        }
        return result
    }

    /// Any page may load it: it holds nothing of anybody's, and what it asks for then is judged as ever.
    static func response(to head: RequestHead) -> FrontResponse {
        let answer = file.answer(to: head)
        var response = FrontResponse(
            status: answer.status, type: answer.contentType, fields: answer.fields, body: answer.body)
        response.caching = "public, max-age=300"
        response.isForAnyPage = true
        return response
    }
}
