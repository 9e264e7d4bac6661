import StalecastWire

struct EndpointTable {
    /// Endpoints by number; nil for those that are gone.
    private var byNumber: [Endpoint?] = []
    private var numbers: [WebhookID: Int] = [:]
    /// Numbers of the endpoints that hear about webhooks and releases.
    private(set) var hearers: Set<Int> = []

    var count: Int { numbers.count }
    /// Oldest first.
    var all: some Sequence<Endpoint> { byNumber.lazy.compactMap(\.self) }

    subscript(number: Int) -> Endpoint? { byNumber[number] }
    subscript(id: WebhookID) -> Endpoint? { numbers[id].flatMap { byNumber[$0] } }

    mutating func add(_ webhook: Webhook) -> Endpoint {
        let endpoint = Endpoint(number: byNumber.count, webhook: webhook)
        byNumber.append(endpoint)
        numbers[webhook.id] = endpoint.number
        noteTopics(of: endpoint)
        return endpoint
    }

    /// To be called after a change of its topics.
    mutating func noteTopics(of endpoint: Endpoint) {
        if endpoint.topics.contains(where: TopicName.operations.contains) {
            hearers.insert(endpoint.number)
        } else {
            hearers.remove(endpoint.number)
        }
    }

    mutating func remove(_ id: WebhookID) -> Endpoint? {
        guard let number = numbers.removeValue(forKey: id) else { return nil }
        hearers.remove(number)
        defer { byNumber[number] = nil }
        return byNumber[number]
    }

    /// Everything that should agree and does not, in sentences.
    var problems: [String] {
        var problems: [String] = []
        let count = byNumber.count { $0 != nil }
        if numbers.count != count { problems.append("\(numbers.count) names for \(count) webhooks") }
        for endpoint in all where numbers[endpoint.id] != endpoint.number {
            problems.append("\(endpoint.id) is not found by its name")
        }
        return problems
    }
}
