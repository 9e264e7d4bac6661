import StalecastHTTP

/// The query of a request, written as a dictionary. A name whose value is nil is left out; a name may stand twice.
struct RequestQuery: Sendable, ExpressibleByDictionaryLiteral {
    private var members: [(name: String, value: String)]

    init(dictionaryLiteral members: (String, String?)...) {
        self.members = members.compactMap { name, value in value.map { (name, $0) } }
    }

    var names: [String] { members.map(\.name) }

    /// Encoded, with its question mark; empty for a query without members.
    var text: String {
        let words = members.map { "\($0.name)=\(PercentEncoding.encode($0.value))" }
        return words.isEmpty ? "" : "?" + words.joined(separator: "&")
    }

    static func + (first: RequestQuery, second: RequestQuery) -> RequestQuery {
        var query = first
        query.members += second.members
        return query
    }
}
