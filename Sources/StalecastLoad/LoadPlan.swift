import CLinux
import Foundation
package import StalecastWire

/// Plan of the load, decided and checked before the first connection.
package struct LoadPlan: Sendable {
    package let target: LoadTarget
    package let subscribers: Int
    package let transport: LoadTransport
    /// Scope whose messages the subscribers await.
    package let scope: Scope
    package let topic: TopicName
    /// An API key or token that Edge asks for; nil shows none.
    package let apiKey: String?
    /// Loops, each on a thread of its own, that share the subscribers.
    package let threads: Int
    /// Connections being made at once, over all loops.
    package let inFlight: Int

    package init(
        target: LoadTarget, subscribers: Int, transport: LoadTransport, scope: Scope, topic: TopicName,
        apiKey: String? = nil, threads: Int, inFlight: Int
    ) {
        (self.target, self.subscribers, self.transport) = (target, subscribers, transport)
        (self.scope, self.topic, self.apiKey) = (scope, topic, apiKey)
        (self.threads, self.inFlight) = (threads, inFlight)
    }

    /// Connections from one loopback source address. Linux searches the free port in order: near the 14,000 it tries
    /// first a connection costs ten times as much.
    static let connectionsPerSource = 2000
    /// Descriptors the rest of the process may need.
    private static let spareDescriptors = 64

    /// Checks that the descriptors and the ports suffice; raises the soft descriptor limit.
    /// - Throws: ``LoadProblem`` that says how many subscribers would fit.
    package func check() throws(LoadProblem) {
        let limit = Int(clamping: stalecast_raise_descriptor_limit())
        let fit = max(0, limit - Self.spareDescriptors)
        guard subscribers <= fit else {
            throw LoadProblem(
                .refused,
                "\(subscribers) subscribers do not fit: this process may open \(limit) descriptors "
                    + "(ulimit -n), which is enough for \(fit) subscribers",
                advice: "Raise the limit (`ulimit -Hn`, LimitNOFILE= of a systemd unit, /etc/security/limits.conf), "
                    + "use --subscribers \(fit), or run several loads at once.")
        }
        let ports = Self.ephemeralPorts
        guard target.hasManySources || subscribers <= ports else {
            throw LoadProblem(
                .refused,
                "\(subscribers) subscribers do not fit: from one address there are \(ports) ports to "
                    + "\(target.authority)",
                advice: "Use --subscribers \(ports), or run further loads on other machines.")
        }
    }

    private static var ephemeralPorts: Int {
        let text = (try? String(contentsOfFile: "/proc/sys/net/ipv4/ip_local_port_range", encoding: .utf8)) ?? ""
        let bounds = text.split { $0.isWhitespace }.compactMap { Int($0) }  // no such file: Linux's default counts
        return bounds.count == 2 ? bounds[1] - bounds[0] + 1 : 28_232
    }

    /// The request of a subscriber.
    ///
    /// - Parameter cursor: what a poll resumes after; nil for its first one, which only asks where the topic stands.
    package func request(cursor: String? = nil) -> [UInt8] {
        let topic = topic.description.replacingOccurrences(of: "%", with: "%25")
        let query = "topic=\(topic)&project=\(scope.project)&namespace=\(scope.namespace)"
        let (path, accept) =
            switch transport {
            case .sse: ("/v1/events?\(query)", "text/event-stream")
            case .poll: ("/v1/poll?\(query)&wait=" + (cursor.map { "55s&cursor=\($0)" } ?? "0s"), "*/*")
            }
        let key = apiKey.map { "X-API-Key: \($0)\r\n" } ?? ""
        let host = "Host: \(target.authority)\r\n"
        return Array("GET \(target.basePath)\(path) HTTP/1.1\r\n\(host)\(key)Accept: \(accept)\r\n\r\n".utf8)
    }
}

package enum LoadTransport: String, CaseIterable, Sendable {
    case sse
    /// Long-polls, the next sent as soon as one is answered.
    case poll
}
