import StalecastAccess
import StalecastWire
import Synchronization

/// A time that tests move.
final class MovedClock: Sendable {
    private let microseconds = Mutex<Int64>(1_800_000_000_000_000)

    var now: Timestamp { Timestamp(microseconds: microseconds.withLock { $0 }) }

    func advance(by duration: Duration) {
        microseconds.withLock { $0 = Timestamp(microseconds: $0).advanced(by: duration).microseconds }
    }
}

/// A key with its text, before an authorizer knows it.
struct MadeKey {
    let text: String
    var key: AccessKey

    init(_ kind: APIKey.Kind = .secret, _ grants: [Grant] = [Grant(actions: [.watch, .fetch])]) {
        var random = SystemRandomNumberGenerator()
        let made = APIKey(kind, using: &random)
        text = made.text
        key = AccessKey(id: made.id, kind: kind, grants: grants, secrets: [.init(made.digest)])
    }
}

extension Credentials {
    static func bearer(_ text: String) -> Credentials {
        var credentials = Credentials()
        credentials.authorization = "Bearer \(text)"
        return credentials
    }

    static func query(_ text: String) -> Credentials {
        var credentials = Credentials()
        credentials.queryKey = text
        return credentials
    }
}

extension Authorizer {
    /// The reason of a refusal; nil when the credentials are admitted.
    func denial(_ credentials: Credentials, at listener: Listener = .edge) -> Denial? {
        do {
            _ = try admit(credentials, at: listener)
            return nil
        } catch {
            return error
        }
    }
}
