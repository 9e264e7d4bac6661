import StalecastWire

/// Data of a remote-config event: Firebase's `RemoteConfigEventData`, or this daemon's own message.
struct ChangeNotice {
    private let data: JSONObject

    /// - Parameter data: ignored unless it is an object.
    init(_ data: JSONValue?) { self.data = data?.object ?? [:] }

    /// Event types whose data is understood. Events of all other types are welcome too, but only say "look".
    private static let types: Set<String> = [
        "google.firebase.remoteconfig.remoteConfig.v1.updated",
        "google.firebase.remoteconfig.update",
        "providers/firebase.remoteConfig/remoteconfig.update",
    ]

    static func isKnown(_ type: String) -> Bool { types.contains(type) }

    /// The project in `//firebaseremoteconfig.googleapis.com/projects/demo/config` or `projects/demo`.
    static func project(in resource: String) -> String? {
        let segments = resource.split(separator: "/", omittingEmptySubsequences: false)
        guard let index = segments.firstIndex(of: "projects"), index + 1 < segments.count else { return nil }
        let name = segments[index + 1]
        return name.isEmpty ? nil : String(name)
    }

    /// Writes what the data says into `event`; members of another type than expected say nothing.
    func complete(_ event: inout SourceEvent) {
        event.version = version ?? event.version
        event.namespace = text("namespace") ?? event.namespace
        event.project = event.project ?? text("project")
    }

    /// 64-bit numbers come as strings or numbers.
    private var version: VersionNumber? {
        for name in ["versionNumber", "version_number", "latestTemplateVersionNumber"] {
            if let number = data[name]?.versionNumber, number > 0 { return number }
        }
        return nil
    }

    private func text(_ name: String) -> String? {
        guard let text = data[name]?.string, !text.isEmpty else { return nil }
        return text
    }
}
