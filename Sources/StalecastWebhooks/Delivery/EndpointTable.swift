import StalecastWire

/// All endpoints, by number and by id.
struct EndpointTable {
    private var byNumber: [Int: Endpoint] = [:]
    private var numbers: [WebhookID: Int] = [:]
    private var next = 0
    /// Numbers of the endpoints that hear about webhooks and releases.
    private(set) var hearers: Set<Int> = []

    var count: Int { byNumber.count }
    var all: some Collection<Endpoint> { byNumber.values }
    /// Oldest first.
    var inOrder: [Endpoint] { byNumber.values.sorted { $0.number < $1.number } }

    subscript(number: Int) -> Endpoint? { byNumber[number] }
    subscript(id: WebhookID) -> Endpoint? { numbers[id].flatMap { byNumber[$0] } }

    mutating func add(_ webhook: Webhook) -> Endpoint {
        let endpoint = Endpoint(number: next, webhook: webhook)
        next += 1
        byNumber[endpoint.number] = endpoint
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
        return byNumber.removeValue(forKey: number)
    }

    /// Everything that should agree and does not, in sentences.
    var problems: [String] {
        var problems: [String] = []
        if numbers.count != byNumber.count { problems.append("\(numbers.count) names for \(byNumber.count) webhooks") }
        for endpoint in byNumber.values where numbers[endpoint.id] != endpoint.number {
            problems.append("\(endpoint.id) is not found by its name")
        }
        return problems
    }
}
