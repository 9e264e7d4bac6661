import CConsole
package import StalecastHTTP

/// The console's pages: what `Sources/CConsole/web` holds, embedded by the compiler.
package enum ConsoleFiles {
    /// Files by name.
    package static let all: [String: EmbeddedFile] = Dictionary(
        uniqueKeysWithValues: sequence(state: 0) { index in
            defer { index += 1 }
            let file = cconsole_file_at(index)
            return file.name.map {
                EmbeddedFile(
                    name: String(cString: $0), bytes: Array(UnsafeBufferPointer(start: file.bytes, count: file.count)))
            }
        }.map { ($0.name, $0) })

    /// Policy for the pages: run our scripts, show our styles, speak with this listener. Text never becomes markup
    /// (Trusted Types), and no page frames them.
    package static let policy = """
        default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
        form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
        trusted-types 'none'
        """

    static func answer(_ file: EmbeddedFile, to head: RequestHead) -> Answer {
        var answer = file.answer(to: head)
        for (field, value) in fields { answer.add(field, value) }
        return answer
    }

    private static let fields = [
        ("Content-Security-Policy", policy), ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cross-Origin-Resource-Policy", "same-origin"), ("Referrer-Policy", "no-referrer"),
        // For browsers older than frame-ancestors.
        ("X-Frame-Options", "DENY"),
    ]
}
