import StalecastWire

extension Watcher {
    /// Event for a watcher, from a stream or a poll alike.
    enum Event: Sendable {
        /// A message's data, one line of JSON, and the cursor after it.
        case message(String, cursor: String)
        /// Everything up to this cursor has been delivered.
        case synced(String)
        /// The cursor no longer means anything: forget what you hold; the newest messages follow.
        case reset(String)
        /// Something else that the server says of the subscription.
        case remark(String)
        /// The connection is gone and will be made again.
        case reconnecting(reason: String, after: Duration)
    }

    struct Line {
        let palette: Palette

        /// A message, for example `13:00:00.123 CET  PUSH_RC  demo/firebase  version 17  ROLLBACK to 12  changed: pay_x`.
        func message(_ data: String, at time: Timestamp) -> String {
            let clock = palette.dim(LocalClock.asked.time(time))
            guard let json = JSONValue.ifValid(data.utf8),  // not JSON: shown as it came
                let version = json["latestTemplateVersionNumber"]?.int64
            else { return "\(clock)  \(data.printable)" }
            let scope = [json["project"]?.string, json["namespace"]?.string].compactMap { $0 }.joined(separator: "/")
            let before = [json.word("topic", ""), scope].map(\.printable)
            let after = [updateType(of: json), changes(json)].map(\.printable)
            let words = [clock] + before + [palette.green("version \(version)")] + after
            return words.filter { !$0.isEmpty }.joined(separator: "  ")
        }

        private func changes(_ json: JSONValue) -> String {
            guard let keys = json["changedKeys"]?.array?.compactMap(\.string) else {
                return "anything may have changed"
            }
            return keys.isEmpty ? "no parameter changed" : "changed: " + keys.joined(separator: ", ")
        }

        /// Words for the reason why a server could not go on from a cursor.
        private static func words(_ reason: String) -> String {
            switch reason {
            case "malformed": "it is not one of a server's (malformed)"
            case "unknown-epoch": "the store is another one since, for example restored (unknown-epoch)"
            case "future-cursor": "it is ahead of the store (future-cursor)"
            default: reason.printable
            }
        }

        /// A remark about the connection, for standard error.
        func remark(_ event: Watcher.Event) -> String? {
            switch event {
            case .message: nil
            case .synced(let cursor): palette.dim("up to date, cursor \(cursor.printable)")
            case .reset(let reason): "the cursor means nothing here: \(Self.words(reason)); what is current follows"
            case .remark(let text): text.printable
            case .reconnecting(let reason, let wait): palette.dim("\(reason.printable); again in \(wait.inSeconds)")
            }
        }
    }
}

extension Duration {
    /// Text, for example `0.8 s`.
    var inSeconds: String {
        let tenths = (components.seconds * 10) + components.attoseconds / 100_000_000_000_000_000
        return "\(tenths / 10).\(tenths % 10) s"
    }
}
