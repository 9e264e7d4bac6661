import StalecastWire

struct EndpointTable {
    /// Endpoints by number, 256 in a page. A number is given once, since alarms and queues may still hold it; a page goes
    /// with the last of its endpoints.
    private var pages: [[Endpoint?]] = []
    private var nextNumber = 0
    private var numbers: [WebhookID: Int] = [:]
    /// Numbers of the endpoints that hear about webhooks and releases.
    private(set) var hearers: Set<Int> = []

    var count: Int { numbers.count }
    /// Oldest first.
    var all: some Sequence<Endpoint> { pages.lazy.joined().compactMap(\.self) }

    subscript(number: Int) -> Endpoint? {
        let page = pages[number >> 8]
        return page.isEmpty ? nil : page[number & 255]
    }
    subscript(id: WebhookID) -> Endpoint? { numbers[id].flatMap { self[$0] } }

    mutating func add(_ webhook: Webhook) -> Endpoint {
        let endpoint = Endpoint(number: nextNumber, webhook: webhook)
        if nextNumber & 255 == 0 {
            pages.append(Array(repeating: nil, count: 256))
            if pages.count > 1 { dropIfEmpty(pages.count - 2) }
        }
        nextNumber += 1
        pages[endpoint.number >> 8][endpoint.number & 255] = endpoint
        numbers[webhook.id] = endpoint.number
        noteTopics(of: endpoint)
        return endpoint
    }

    /// Notes a change of the endpoint's topics; call it after each.
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
        let (page, endpoint) = (number >> 8, self[number])
        pages[page][number & 255] = nil
        // The newest one takes further endpoints.
        if page < pages.count - 1 { dropIfEmpty(page) }
        return endpoint
    }

    private mutating func dropIfEmpty(_ page: Int) {
        if pages[page].allSatisfy({ $0 == nil }) { pages[page] = [] }
    }

    /// Everything that should agree and does not, in sentences.
    var problems: [String] {
        var problems: [String] = []
        let count = all.reduce(0) { count, _ in count + 1 }
        if numbers.count != count { problems.append("\(numbers.count) names for \(count) webhooks") }
        for endpoint in all where numbers[endpoint.id] != endpoint.number {
            problems.append("\(endpoint.id) is not found by its name")
        }
        return problems
    }
}
