package import StalecastWire

/// Transport of a subscriber; raw values are metric labels.
package enum Transport: String, Sendable, CaseIterable {
    case sse
    case poll
    /// Firebase's real-time stream.
    case firebase
}

/// Reason why a connection or a message was let go; raw values are metric labels and log values.
package enum DropReason: String, Sendable, CaseIterable {
    /// The client closed or its machine went away.
    case peerClosed = "peer_closed"
    /// The client read nothing for the write-stall limit with data pending.
    case writeStall = "write_stall"
    /// The stream reached its age.
    case lifetime
    case drain
    /// No complete request head arrived in time.
    case headerTimeout = "header_timeout"
    /// No complete request body arrived in time.
    case bodyTimeout = "body_timeout"
    /// A kept-alive connection stayed silent.
    case idle
    /// A reload took the topic away.
    case topicRetired = "topic_retired"
    case expired
    /// Its credential was revoked, or lost a grant.
    case revoked
    /// The total connection cap is reached.
    case capacity
    /// The cap for one address is reached.
    case addressCapacity = "address_capacity"
    /// Peer that is not one of the proxies from which alone connections come.
    case untrustedPeer = "untrusted_peer"
    /// A proxy's connection without a PROXY header.
    case proxyHeader = "proxy_header"
    /// Request that is not HTTP we accept.
    case badRequest = "bad_request"

    /// Cause of a stream's end, for the gates of a release.
    package var cause: LossGate.Cause {
        switch self {
        case .peerClosed, .writeStall: .byPeer
        default: .byUs
        }
    }
}

/// Subscribers by project, topic and transport; counts only, no addresses.
package struct Presence: Sendable {
    package typealias Counts = [TopicName: [Transport: Int]]

    /// Counts by project: a client that listens to a name in several namespaces counts once.
    package private(set) var counts: [ProjectID: Counts] = [:]
    /// Counts by scope: a client counts in each of them.
    package private(set) var scopes: [Scope: Counts] = [:]

    package init() {}

    /// - Parameter firsts: those for whom it is the first topic of its name.
    package mutating func add(_ topic: Topic, _ transport: Transport, members: Int, firsts: Int) {
        if members > 0 { scopes[topic.scope, default: [:]][topic.name, default: [:]][transport, default: 0] += members }
        guard firsts > 0 else { return }
        counts[topic.scope.project, default: [:]][topic.name, default: [:]][transport, default: 0] += firsts
    }

    package mutating func merge(_ other: Presence) {
        counts.merge(other.counts, uniquingKeysWith: Self.sum)
        scopes.merge(other.scopes, uniquingKeysWith: Self.sum)
    }

    private static func sum(_ a: Counts, _ b: Counts) -> Counts {
        a.merging(b) { $0.merging($1, uniquingKeysWith: +) }
    }

    package var byTopic: Counts {
        counts.values.reduce([:], Self.sum)
    }

    package func count(_ topic: TopicName, _ transport: Transport) -> Int {
        counts.values.reduce(0) { $0 + ($1[topic]?[transport] ?? 0) }
    }
}
