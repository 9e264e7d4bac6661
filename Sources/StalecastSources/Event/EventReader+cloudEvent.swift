import Foundation
import StalecastWire

// CloudEvents 1.0 over HTTP: the attributes, and of the data what the known types say.
extension EventReader {
    /// More bytes than this in an attribute are refused; the specification asks receivers for 64 KB events in all.
    static let maxAttributeBytes = 2048

    /// - Parameter event: an element of a batch, or the body in structured mode.
    static func cloudEvent(structured event: JSONValue) throws(Problem) -> SourceEvent {
        guard let object = event.object else { throw Problem("A CloudEvent is a JSON object.") }
        let attributes = { (name: String) throws(Problem) -> String? in
            guard let value = object[name], !value.isNull else { return nil }
            guard let text = value.string else { throw Problem("The CloudEvents attribute \(name) must be a string.") }
            return text
        }
        if object["data"] != nil, object["data_base64"] != nil {
            throw Problem("A CloudEvent has data or data_base64, not both.")
        }
        return try cloudEvent(attributes: attributes) { () throws(Problem) -> JSONValue? in
            if let data = object["data"] { return data }
            return try base64(object["data_base64"])
        }
    }

    /// - Parameters:
    ///   - headers: by lower-case name; attributes are those that begin with `ce-`.
    ///   - data: nil when the body is empty or not JSON.
    static func cloudEvent(binary headers: [String: String], data: JSONValue?) throws(Problem) -> SourceEvent {
        let attributes = { (name: String) throws(Problem) -> String? in
            guard let value = headers["ce-\(name)"] else { return nil }
            guard let decoded = value.removingPercentEncoding else {
                throw Problem("The header ce-\(name) is not percent-encoded UTF-8.")
            }
            return decoded
        }
        return try cloudEvent(attributes: attributes) { () throws(Problem) -> JSONValue? in data }
    }

    private static func cloudEvent(
        attributes: (String) throws(Problem) -> String?, data: () throws(Problem) -> JSONValue?
    ) throws(Problem) -> SourceEvent {
        let version = try required("specversion", attributes)
        guard version == "1.0" else { throw Problem("This server reads CloudEvents 1.0, not \(version.prefix(16)).") }
        let id = try required("id", attributes)
        let sender = try required("source", attributes)
        let type = try required("type", attributes)
        guard ChangeNotice.isKnown(type) else { return SourceEvent(form: .cloudEvent, id: id, sender: sender) }
        let subject = try attributes("subject") ?? ""
        var event = SourceEvent(form: .cloudEvent, id: id, sender: sender)
        event.project = ChangeNotice.project(in: sender) ?? ChangeNotice.project(in: subject)
        ChangeNotice(try data()).complete(&event)
        return event
    }

    private static func required(
        _ name: String, _ attributes: (String) throws(Problem) -> String?
    ) throws(Problem) -> String {
        guard let text = try attributes(name), !text.isEmpty else {
            throw Problem("A CloudEvent needs the attribute \(name), a string that is not empty.")
        }
        guard text.utf8.count <= maxAttributeBytes else {
            throw Problem("The CloudEvents attribute \(name) is longer than \(maxAttributeBytes) bytes.")
        }
        return text
    }

    private static func base64(_ value: JSONValue?) throws(Problem) -> JSONValue? {
        guard let value, !value.isNull else { return nil }
        guard let text = value.string, let bytes = Data(base64Encoded: text) else {
            throw Problem("The CloudEvents member data_base64 is not base64.")
        }
        return try json(Array(bytes))
    }
}
