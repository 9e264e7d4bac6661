import StalecastWire

/// A JSON object of no known envelope: our own message as a webhook delivers it (bare, or as `data` of a Standard
/// Webhooks payload), or `{"namespace","versionNumber"}`, all of it optional. Other members are not looked at; an `id`
/// neither, since a foreign body may well carry the same one every time.
enum PlainEventReader {
    static func event(_ body: JSONObject) -> SourceEvent {
        var event = SourceEvent(form: .plain)
        let message = body["data"]?["CONFIG_STATE"] == nil ? JSONValue.object(body) : body["data"]
        ChangeNotice(message).complete(&event)
        // Whoever posts here named the project in the path; a foreign body's "project" may be anything.
        event.project = nil
        return event
    }
}
