package import StalecastWire
import Synchronization

/// Permission that a ticket carries: streams and polls of some topics, for the principal that asked for it. Browsers'
/// `EventSource` sends no headers, and a credential that lasts does not belong into a URL.
package struct Ticket: Sendable, Hashable {
    /// Most bytes of all its topics' names together: 64 of 32 characters each.
    package static let maxNameBytes = 2048

    /// See ``Principal/number``; asked again when the ticket is redeemed.
    package let principal: Int32
    package let topics: [TopicName]
    /// Project as the request named it; nil where it did not.
    package let project: String?
    package let namespace: String?
    private let hold: PrincipalHold?

    /// - Parameter hold: of the principal; nil where none is needed.
    package init(
        principal: Int32, hold: PrincipalHold? = nil, topics: [TopicName], project: String?, namespace: String?
    ) {
        (self.principal, self.hold, self.topics) = (principal, hold, topics)
        (self.project, self.namespace) = (project, namespace)
    }
}

/// The tickets that were made and not redeemed yet, in memory only. Each is good once.
package final class TicketBook: Sendable {
    package static let life: Duration = .seconds(60)
    /// Most tickets of one principal at once.
    package static let maxOfPrincipal = 1024
    /// Callers without a credential, of one address at once: fewer, since one stranger may have many addresses.
    package static let maxOfAddress = 256
    /// Together: at most some 64 MiB, when 16 principals do their worst with ``Ticket/maxNameBytes``.
    package static let maxTickets = 16_384
    package static let prefix = "stt_"

    fileprivate struct State {
        var tickets: [SecretDigest: (ticket: Ticket, holder: String, madeAt: Timestamp)] = [:]
        var counts: [String: Int] = [:]
        /// Tickets that were made, oldest first; some are gone.
        var queue: [(digest: SecretDigest, madeAt: Timestamp)] = []
        var head = 0
    }

    private let state = Mutex(State())
    private let clock: @Sendable () -> Timestamp

    init(clock: @escaping @Sendable () -> Timestamp) { self.clock = clock }

    /// Makes a ticket: `stt_` and 128 bits in hexadecimal digits.
    ///
    /// - Parameters:
    ///   - holder: ``Principal/actor``, the same for all tokens of one subject; for a caller without a credential its
    ///     address.
    ///   - most: tickets that the holder may have at once.
    /// - Returns: nil when there are too many, of its holder or together.
    package func make(
        _ ticket: Ticket, of holder: String, most: Int = maxOfPrincipal,
        using generator: inout some RandomNumberGenerator
    ) -> (text: String, expiresAt: Timestamp)? {
        let now = clock()
        let digits = (0..<32).map { _ in String(UInt8.random(in: 0...15, using: &generator), radix: 16) }
        let text = Self.prefix + digits.joined()
        let isMade = state.withLock { state in
            state.forgetOld(at: now)
            guard state.tickets.count < Self.maxTickets,
                state.counts[holder, default: 0] < most
            else { return false }
            let digest = SecretDigest(of: text)
            state.tickets[digest] = (ticket, holder, now)
            state.counts[holder, default: 0] += 1
            state.queue.append((digest, now))
            return true
        }
        return isMade ? (text, now.advanced(by: Self.life)) : nil
    }

    /// Takes a ticket; the second use of it finds none. It is looked for by its hash.
    package func redeem(_ text: String) throws(Denial) -> Ticket {
        let (now, digest) = (clock(), SecretDigest(of: text))
        let found = state.withLock { $0.take(digest) }
        guard let found else { throw .unknown }
        // A ticket of the future was made before the clock was set back.
        guard found.madeAt <= now, now < found.madeAt.advanced(by: Self.life) else { throw .expired }
        return found.ticket
    }
}

extension TicketBook.State {
    mutating func take(_ digest: SecretDigest) -> (ticket: Ticket, holder: String, madeAt: Timestamp)? {
        guard let found = tickets.removeValue(forKey: digest) else { return nil }
        let left = counts[found.holder, default: 1] - 1
        counts[found.holder] = left > 0 ? left : nil
        return found
    }

    mutating func forgetOld(at now: Timestamp) {
        // A clock that was set back makes what was made before it unusable.
        while head < queue.count, queue[head].madeAt > now || queue[head].madeAt.advanced(by: TicketBook.life) <= now {
            _ = take(queue[head].digest)
            head += 1
        }
        if head > 1024, head * 2 > queue.count {
            queue.removeFirst(head)
            head = 0
        }
    }
}
