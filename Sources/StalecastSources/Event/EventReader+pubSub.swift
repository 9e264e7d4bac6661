import Foundation
import StalecastWire

// The envelope of a Pub/Sub push subscription: `{"message":{"data":base64,"messageId","attributes"},"subscription"}`.
// Its data may be remote-config event data, a CloudEvent in either mode, or anything at all.
extension EventReader {
    static func isPubSub(_ message: JSONObject) -> Bool {
        message["messageId"] != nil || message["message_id"] != nil
    }

    static func pubSub(_ body: JSONObject, _ message: JSONObject) throws(Problem) -> SourceEvent {
        guard let id = (message["messageId"] ?? message["message_id"])?.identifier else {
            throw Problem("message.messageId must be a string.")
        }
        let subscription = body["subscription"]?.string ?? ""
        var event = SourceEvent(form: .pubSub, id: id, sender: String(subscription.prefix(512)))
        let data = try pubSubData(message["data"])
        if let inner = try? cloudEvent(structured: data ?? .null) {  // most payloads are no CloudEvents
            event.take(inner)
        } else if let inner = try? cloudEvent(binary: attributes(message), data: data) {  // likewise
            event.take(inner)
        } else {
            ChangeNotice(data).complete(&event)
        }
        return event
    }

    /// nil for no data, and for data that is not JSON: the message then only says "look".
    private static func pubSubData(_ value: JSONValue?) throws(Problem) -> JSONValue? {
        guard let value, !value.isNull else { return nil }
        guard let text = value.string, let bytes = Data(base64Encoded: text) else {
            throw Problem("message.data must be base64.")
        }
        return JSONValue.ifValid(bytes)  // a publisher may send anything
    }

    private static func attributes(_ message: JSONObject) -> [String: String] {
        var attributes: [String: String] = [:]
        for (name, value) in message["attributes"]?.object?.members ?? [] {
            if let text = value.string { attributes[name.lowercased()] = text }
        }
        return attributes
    }
}

extension SourceEvent {
    /// The message's own id stays: a redelivery has the same, a second publish of one event has not.
    fileprivate mutating func take(_ inner: SourceEvent) {
        project = inner.project
        namespace = inner.namespace
        version = inner.version
    }
}
