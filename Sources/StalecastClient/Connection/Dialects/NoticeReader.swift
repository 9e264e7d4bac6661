import StalecastWire

/// Reads messages as JSON objects.
enum NoticeReader {
    /// A message's text.
    ///
    /// - Parameter topic: the one it came over, if it does not say.
    static func event(_ text: some Sequence<UInt8>, topic: String) -> ConnectionEvent {
        do throws(JSONError) {
            guard let object = try JSONValue.parse(text).object else {
                return .invalidMessage("a message is not a JSON object")
            }
            return .stale(notice(object, topic: topic))
        } catch {
            return .invalidMessage("a message is not JSON: \(error)")
        }
    }

    static func notice(_ object: JSONObject, topic: String) -> StaleNotice {
        let keys = object["changedKeys"]?.array
        return StaleNotice(
            topic: object["topic"]?.string ?? topic, project: object["project"]?.string,
            namespace: object["namespace"]?.string, version: max(0, object["latestTemplateVersionNumber"]?.int64 ?? 0),
            sinceVersion: object["sinceTemplateVersionNumber"]?.int64,
            changedKeys: keys.map { $0.compactMap(\.string) }, etag: object["etag"]?.string,
            updateType: object["updateType"]?.string,
            // At most a day.
            fetchWindowMs: Int(min(max(0, object["fetchWindowMs"]?.int64 ?? 0), 86_400_000)),
            isUrgent: object["urgent"].map { $0.bool == true || $0.string == "true" } ?? false,
            data: Dictionary(object.members.map { ($0.key, string($0.value)) }) { _, last in last })
    }

    private static func string(_ value: JSONValue) -> String {
        value.string ?? String(decoding: value.encoded(), as: UTF8.self)
    }
}
