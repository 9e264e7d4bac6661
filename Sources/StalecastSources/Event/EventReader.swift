import StalecastWire

/// Recognises the forms in which change events travel over HTTP, and reads what they say. The forms are told apart by
/// headers first (CloudEvents' HTTP binding), then by the shape of the body.
package enum EventReader {
    package typealias Problem = SourceEvent.Problem

    /// Most events of a batch. Control's limit of 64 KiB is reached earlier in practice.
    package static let maxBatch = 512

    /// - Parameters:
    ///   - headers: by lower-case name.
    ///   - body: as received, inflated.
    /// - Returns: the events in order; empty only for an empty batch.
    /// - Throws: ``SourceEvent/Problem`` for what claims to be an event of some form and is not.
    package static func events(headers: [String: String], body: [UInt8]) throws(Problem) -> [SourceEvent] {
        let type = mediaType(headers["content-type"])
        if type.hasPrefix("application/cloudevents-batch") { return try batch(type, body) }
        if type.hasPrefix("application/cloudevents") {
            try requireJSON(type, "application/cloudevents+json")
            return [try cloudEvent(structured: json(body))]
        }
        if headers.keys.contains(where: { $0.hasPrefix("ce-") }) {
            return [try cloudEvent(binary: headers, data: isJSON(type) ? optionalJSON(body) : nil)]
        }
        return [try uncovered(type, body)]
    }

    private static func batch(_ type: String, _ body: [UInt8]) throws(Problem) -> [SourceEvent] {
        try requireJSON(type, "application/cloudevents-batch+json")
        guard let elements = try json(body).array else { throw Problem("A batch of CloudEvents is a JSON array.") }
        guard elements.count <= maxBatch else {
            throw Problem("A batch has at most \(maxBatch) events; this one has \(elements.count).")
        }
        return try elements.map(cloudEvent(structured:))
    }

    /// Reads an event without CloudEvents' headers, which only its body can identify.
    private static func uncovered(_ type: String, _ body: [UInt8]) throws(Problem) -> SourceEvent {
        guard isJSON(type) || type.isEmpty else { return SourceEvent(form: .plain) }
        guard let document = try optionalJSON(body), let object = document.object else {
            return SourceEvent(form: .plain)
        }
        if let message = object["message"]?.object, isPubSub(message) {
            return try pubSub(object, message)
        }
        if isCloudFunction(object) { return try cloudFunction(object) }
        return plain(object)
    }

    /// The body of a first-generation background function: `{"context":{"eventId","eventType","resource",…},"data":{…}}`,
    /// or the same with the context's members beside `data`, as the oldest emulators send it.
    private static func isCloudFunction(_ body: JSONObject) -> Bool {
        guard body["data"] != nil else { return false }
        return body["context"]?["eventId"] != nil || body["eventId"] != nil
    }

    private static func cloudFunction(_ body: JSONObject) throws(Problem) -> SourceEvent {
        let context = body["context"]?.object ?? body
        guard let id = context["eventId"]?.identifier else {
            throw Problem("context.eventId must be a string of at most \(JSONValue.maxIdentifierBytes) bytes.")
        }
        guard let type = context["eventType"]?.string, !type.isEmpty else {
            throw Problem("context.eventType must be a string.")
        }
        let resource = context["resource"]?.string ?? context["resource"]?["name"]?.string ?? ""
        var event = SourceEvent(form: .cloudFunction, id: id, sender: String(resource.prefix(512)))
        guard ChangeNotice.isKnown(type) else { return event }
        event.project = ChangeNotice.project(in: resource)
        ChangeNotice(body["data"]).complete(&event)
        return event
    }

    /// A JSON object of no known envelope: our own message as a webhook delivers it (bare, or as `data` of a Standard
    /// Webhooks payload), or `{"namespace","versionNumber"}`, all of it optional. Other members are not looked at; an
    /// `id` neither, since a foreign body may well carry the same one every time.
    private static func plain(_ body: JSONObject) -> SourceEvent {
        var event = SourceEvent(form: .plain)
        let message = body["data"]?["CONFIG_STATE"] == nil ? JSONValue.object(body) : body["data"]
        ChangeNotice(message).complete(&event)
        // The sender named the project in the path; a foreign body's "project" may be anything.
        event.project = nil
        return event
    }

    // MARK: Media types

    /// Lower case, without parameters.
    static func mediaType(_ header: String?) -> String {
        let bare = (header ?? "").prefix { $0 != ";" }.lowercased()
        return String(bare.filter { $0 != " " && $0 != "\t" })
    }

    static func isJSON(_ type: String) -> Bool {
        type == "application/json" || type == "text/json" || type.hasSuffix("+json")
    }

    private static func requireJSON(_ type: String, _ wanted: String) throws(Problem) {
        if type == wanted { return }
        throw Problem("CloudEvents are read as JSON here: send them as \(wanted).", status: 415)
    }

    // MARK: Bodies

    static func json(_ body: [UInt8]) throws(Problem) -> JSONValue {
        do { return try JSONValue.parse(body) } catch {
            throw Problem("The body is not JSON: \(error.description).")
        }
    }

    /// nil for an empty body.
    private static func optionalJSON(_ body: [UInt8]) throws(Problem) -> JSONValue? {
        body.isEmpty ? nil : try json(body)
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
