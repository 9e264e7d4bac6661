import StalecastWire

/// What a watcher learns, from a stream or a poll alike.
enum WatchEvent: Sendable {
    /// A message's data, one line of JSON.
    case message(String)
    /// Everything up to this cursor has been delivered.
    case synced(String)
    /// The cursor no longer means anything: forget what you hold; the newest messages follow.
    case reset(String)
    /// The connection is gone and will be made again.
    case reconnecting(reason: String, after: Duration)
}

/// A watch event as a line for people.
struct WatchLine {
    private let palette: Palette

    init(_ palette: Palette) { self.palette = palette }

    /// A message, for example `13:00:00.123  PUSH_RC  demo/firebase  version 17  ROLLBACK to 12  changed: pay_x`.
    func message(_ data: String, at time: Timestamp) -> String {
        let clock = palette.dim(String(time.description.dropFirst(11).prefix(12)))
        guard let json = try? JSONValue.parse(data.utf8),  // not JSON: shown as it came
            let version = json["latestTemplateVersionNumber"]?.int64
        else { return "\(clock)  \(data.printable)" }
        let scope = [json["project"]?.string, json["namespace"]?.string].compactMap { $0 }.joined(separator: "/")
        let before = [json["topic"]?.string ?? "", scope].map(\.printable)
        let after = [updateType(of: json), changes(json)].map(\.printable)
        let words = [clock] + before + [palette.green("version \(version)")] + after
        return words.filter { !$0.isEmpty }.joined(separator: "  ")
    }

    private func changes(_ json: JSONValue) -> String {
        guard let keys = json["changedKeys"]?.array?.compactMap(\.string) else { return "anything may have changed" }
        return keys.isEmpty ? "no parameter changed" : "changed: " + keys.joined(separator: ", ")
    }

    /// A remark about the connection, for standard error.
    func remark(_ event: WatchEvent) -> String? {
        switch event {
        case .message: nil
        case .synced(let cursor): palette.dim("up to date at \(cursor.printable)")
        case .reset(let reason): "reset: \(reason.printable)"
        case .reconnecting(let reason, let wait): palette.dim("\(reason.printable); again in \(wait.inSeconds)")
        }
    }
}

extension Duration {
    /// For example `0.8 s`.
    var inSeconds: String {
        let tenths = (components.seconds * 10) + components.attoseconds / 100_000_000_000_000_000
        return "\(tenths / 10).\(tenths % 10) s"
    }
}
