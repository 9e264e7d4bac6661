import Foundation

/// Looks names up, each once however many connections wait for it, away from the loop and from the system's shared
/// threads: a resolver that does not answer blocks for many seconds.
///
/// `@unchecked`: `waiting` is touched on the loop's thread only.
final class NameLookups: @unchecked Sendable {
    typealias Outcome = Result<[SocketAddress], SocketAddress.Unknown>

    static let shared = NameLookups()

    private struct Place: Hashable, Sendable {
        let host: String
        let port: Int
    }

    private let queue = DispatchQueue(label: "stalecast.names", attributes: .concurrent)
    private var waiting: [Place: [@Sendable (Outcome) -> Void]] = [:]

    /// On the loop only; `arrive` is called there, but not before this returned.
    func find(_ host: String, port: Int, on loop: LinkLoop, _ arrive: @escaping @Sendable (Outcome) -> Void) {
        // Not a number throws; then it is a name.
        if let numeric = try? SocketAddress.lookUp(host, port: port, isNumeric: true) {
            return loop.perform { arrive(.success(numeric)) }
        }
        let place = Place(host: host, port: port)
        waiting[place, default: []].append(arrive)
        guard waiting[place]?.count == 1 else { return }
        queue.async { [self] in
            let outcome = Outcome { () throws(SocketAddress.Unknown) in
                try SocketAddress.lookUp(host, port: port, isNumeric: false)
            }
            loop.perform { [self] in
                for arrive in waiting.removeValue(forKey: place) ?? [] { arrive(outcome) }
            }
        }
    }
}
