/// Requests that wait, first come first served.
struct WaitingLine {
    private var requests: [RunningRequest] = []
    private var first = 0

    var count: Int { requests.count - first }

    mutating func append(_ request: RunningRequest) { requests.append(request) }

    /// Nil when nobody waits.
    mutating func takeFirst() -> RunningRequest? {
        guard first < requests.count else { return nil }
        defer {
            first += 1
            if first > 1024 || first == requests.count {
                requests.removeFirst(first)
                first = 0
            }
        }
        return requests[first]
    }

    /// Nil when that request does not wait here.
    mutating func remove(_ ticket: OutboundTicket) -> RunningRequest? {
        requests[first...].firstIndex { $0.ticket == ticket }.map { requests.remove(at: $0) }
    }
}
