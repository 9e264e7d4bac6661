import DequeModule
import Glibc
import StalecastWire

/// Host names that are looked up, each once however many requests wait for it.
///
/// `getaddrinfo` cannot be ended, and holds its thread for as long as the name servers are silent. So there are at most
/// `most` of them, and requests give up waiting, not looking.
struct NameLookups {
    typealias Answer = Result<[IPAddress], OutboundFailure>

    private let most: Int
    /// Requests that wait for each name; a name is here from its first request to the end of its lookup.
    private var waiting: [String: [OutboundEngine.Ticket]] = [:]
    private var begun: Set<String> = []
    /// Names that were answered the last time. The others share half of the threads: however many hosts are gone for
    /// good, they do not hold up those that are there.
    private var answered: Set<String> = []
    private static let mostAnswered = 16_384
    private var answeredNames: Deque<String> = []
    private var otherNames: Deque<String> = []

    init(most: Int) { self.most = max(2, most) }

    var underWay: Int { begun.count }

    mutating func add(_ ticket: OutboundEngine.Ticket, _ name: String) {
        if waiting[name] == nil {
            if answered.contains(name) { answeredNames.append(name) } else { otherNames.append(name) }
        }
        waiting[name, default: []].append(ticket)
    }

    /// Removes a request that waits no more.
    mutating func remove(_ ticket: OutboundEngine.Ticket, _ name: String) { waiting[name]?.removeAll { $0 == ticket } }

    /// A name whose lookup is to begin now; nil when there is none, or no thread for one.
    mutating func next() -> String? {
        while begun.count < most, let name = takeName() {
            // Every request for the name has given up.
            if waiting[name]?.isEmpty != false {
                waiting[name] = nil
                continue
            }
            begun.insert(name)
            return name
        }
        return nil
    }

    private mutating func takeName() -> String? {
        if let name = answeredNames.popFirst() { return name }
        return begun.count { !answered.contains($0) } < most / 2 ? otherNames.popFirst() : nil
    }

    /// - Returns: who waited until now.
    mutating func finish(_ name: String) -> [OutboundEngine.Ticket] {
        begun.remove(name)
        let tickets = waiting.removeValue(forKey: name) ?? []
        // All at once: names that answer come back with their next lookup.
        if answered.count >= Self.mostAnswered { answered = [] }
        if tickets.isEmpty { answered.remove(name) } else { answered.insert(name) }
        return tickets
    }

    /// Blocks.
    static func addresses(of name: String) -> Answer {
        var hints = addrinfo()
        // Names one kind of socket, because getaddrinfo otherwise lists each address once for each kind.
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var first: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(name, nil, &hints, &first)
        defer { if let first { freeaddrinfo(first) } }
        guard code == 0 else {
            return .failure(OutboundFailure(.dns, detail: String(cString: gai_strerror(code))))
        }
        var found: [IPAddress] = []
        var next = first
        while let entry = next {
            next = entry.pointee.ai_next
            if let address = entry.pointee.ai_addr.flatMap(IPAddress.init) { found.append(address) }
        }
        return found.isEmpty ? .failure(OutboundFailure(.dns, detail: "no address")) : .success(found)
    }
}
