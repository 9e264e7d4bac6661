/// The API keys that Firebase's clients must show; they name an app and are no secret of a person, yet are not logged.
struct APIKeys {
    /// Empty admits everybody.
    let keys: [String]

    /// - Parameters:
    ///   - header: `X-Goog-Api-Key`, which wins.
    ///   - query: raw, with `key` in it.
    /// - Throws: 403.
    func check(header: String?, query: Substring) throws(Refusal) {
        guard !keys.isEmpty else { return }
        try check(header ?? Self.key(in: query))
    }

    /// - Throws: 403.
    func check(_ offered: String?) throws(Refusal) {
        guard admits(offered) else {
            throw Refusal(status: 403, sentence: "the API key is missing or not one of this server's")
        }
    }

    func admits(_ offered: String?) -> Bool { keys.isEmpty || offered.map(keys.contains) ?? false }

    private static func key(in query: Substring) -> String? {
        for item in query.split(separator: "&") where item.hasPrefix("key=") { return String(item.dropFirst(4)) }
        return nil
    }
}
