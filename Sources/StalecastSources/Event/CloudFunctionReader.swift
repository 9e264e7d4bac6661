import StalecastWire

/// The body of a first-generation background function: `{"context":{"eventId","eventType","resource",…},"data":{…}}`,
/// or the same with the context's members beside `data`, as the oldest emulators send it.
enum CloudFunctionReader {
    static func recognises(_ body: JSONObject) -> Bool {
        guard body["data"] != nil else { return false }
        return body["context"]?["eventId"] != nil || body["eventId"] != nil
    }

    static func event(_ body: JSONObject) throws(SourceEvent.Problem) -> SourceEvent {
        let context = body["context"]?.object ?? body
        guard let id = context["eventId"]?.identifier else {
            throw SourceEvent.Problem(
                "context.eventId must be a string of at most \(JSONValue.maxIdentifierBytes) bytes.")
        }
        guard let type = context["eventType"]?.string, !type.isEmpty else {
            throw SourceEvent.Problem("context.eventType must be a string.")
        }
        let resource = context["resource"]?.string ?? context["resource"]?["name"]?.string ?? ""
        var event = SourceEvent(form: .cloudFunction, id: id, sender: String(resource.prefix(512)))
        guard ChangeNotice.isKnown(type) else { return event }
        event.project = ChangeNotice.project(in: resource)
        ChangeNotice(body["data"]).complete(&event)
        return event
    }
}

extension JSONValue {
    static let maxIdentifierBytes = 1024

    /// An id as senders spell it: a string that is not empty and not too long, or an integer.
    var identifier: String? {
        guard let text = string ?? int64.map(String.init), !text.isEmpty,
            text.utf8.count <= Self.maxIdentifierBytes
        else { return nil }
        return text
    }
}
