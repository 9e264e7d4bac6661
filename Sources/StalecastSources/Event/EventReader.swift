import StalecastWire

/// Recognises the forms in which change events travel over HTTP, and reads what they say. The forms are told apart by
/// headers first (CloudEvents' HTTP binding), then by the shape of the body.
package enum EventReader {
    /// A batch has at most this many events; what fits into Control's 64 KiB is less in practice.
    package static let maxBatch = 512

    /// - Parameters:
    ///   - headers: by lower-case name.
    ///   - body: as received, inflated.
    /// - Returns: the events in order; empty only for an empty batch.
    /// - Throws: ``SourceEvent/Problem`` for what claims to be an event of some form and is not.
    package static func events(
        headers: [String: String], body: [UInt8]
    ) throws(SourceEvent.Problem) -> [SourceEvent] {
        let type = mediaType(headers["content-type"])
        if type.hasPrefix("application/cloudevents-batch") { return try batch(type, body) }
        if type.hasPrefix("application/cloudevents") {
            try requireJSON(type, "application/cloudevents+json")
            return [try CloudEventReader.event(structured: json(body))]
        }
        if headers.keys.contains(where: { $0.hasPrefix("ce-") }) {
            return [try CloudEventReader.event(binary: headers, data: isJSON(type) ? optionalJSON(body) : nil)]
        }
        return [try uncovered(type, body)]
    }

    private static func batch(_ type: String, _ body: [UInt8]) throws(SourceEvent.Problem) -> [SourceEvent] {
        try requireJSON(type, "application/cloudevents-batch+json")
        guard let elements = try json(body).array else {
            throw SourceEvent.Problem("A batch of CloudEvents is a JSON array.")
        }
        guard elements.count <= maxBatch else {
            throw SourceEvent.Problem("A batch has at most \(maxBatch) events; this one has \(elements.count).")
        }
        var events: [SourceEvent] = []
        for element in elements { events.append(try CloudEventReader.event(structured: element)) }
        return events
    }

    /// Without CloudEvents' headers only the body can tell.
    private static func uncovered(_ type: String, _ body: [UInt8]) throws(SourceEvent.Problem) -> SourceEvent {
        guard isJSON(type) || type.isEmpty else { return SourceEvent(form: .plain) }
        guard let document = try optionalJSON(body), let object = document.object else {
            return SourceEvent(form: .plain)
        }
        if let message = object["message"]?.object, PubSubReader.isMessage(message) {
            return try PubSubReader.event(object, message)
        }
        if CloudFunctionReader.recognises(object) { return try CloudFunctionReader.event(object) }
        return PlainEventReader.event(object)
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

    private static func requireJSON(_ type: String, _ wanted: String) throws(SourceEvent.Problem) {
        if type == wanted { return }
        throw SourceEvent.Problem("CloudEvents are read as JSON here: send them as \(wanted).", status: 415)
    }

    // MARK: Bodies

    static func json(_ body: [UInt8]) throws(SourceEvent.Problem) -> JSONValue {
        do { return try JSONValue.parse(body) } catch {
            throw SourceEvent.Problem("The body is not JSON: \(error.description).")
        }
    }

    /// nil for an empty body.
    private static func optionalJSON(_ body: [UInt8]) throws(SourceEvent.Problem) -> JSONValue? {
        body.isEmpty ? nil : try json(body)
    }
}
