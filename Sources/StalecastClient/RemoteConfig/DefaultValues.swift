import Foundation
import StalecastWire

/// Default values as the text a parameter would have.
enum DefaultValues {
    /// From a dictionary of Foundation's or Swift's plain types: texts as they are, numbers and booleans as JSON
    /// spells them, `Data` as UTF-8, dates as RFC 3339, arrays and dictionaries as JSON. `NSNull` and whatever has no such
    /// text are left out.
    static func texts(of values: [String: Any]) -> [String: String] { values.compactMapValues(text) }

    /// From a value that encodes as an object: each member is a parameter.
    ///
    /// - Throws: `EncodingError`, also when `value` is no object.
    static func texts(of value: some Encodable) throws -> [String: String] {
        let data = try JSONEncoder().encode(value)
        guard let object = (try? JSONValue.parse(data))?.object else {
            let reason = "defaults are a type with named members, or a dictionary by parameter name"
            throw EncodingError.invalidValue(
                value, EncodingError.Context(codingPath: [], debugDescription: reason))
        }
        var texts: [String: String] = [:]
        for (key, member) in object.members where !member.isNull {
            texts[key] = member.string ?? member.text(JSONStyle(asciiOnly: false))
        }
        return texts
    }

    private static func text(_ value: Any) -> String? {
        switch value {
        case let text as String: text
        case let text as NSString: "\(text)"
        case let data as Data: String(decoding: data, as: UTF8.self)
        case let data as NSData: String(decoding: data as Data, as: UTF8.self)
        case let date as Date: Timestamp(microseconds: Int64(date.timeIntervalSince1970 * 1e6)).description
        case let url as URL: url.absoluteString
        case let number as NSNumber: text(ofNumber: number)
        case let number as any LosslessStringConvertible: number.description
        default: json(value)
        }
    }

    /// A boolean is told from a number by its Objective-C type, for a `Bool` became an `NSNumber` on its way.
    private static func text(ofNumber number: NSNumber) -> String {
        let isBoolean = ["c", "B"].contains(String(cString: number.objCType)) && (number == 0 || number == 1)
        return isBoolean ? (number.boolValue ? "true" : "false") : number.stringValue
    }

    private static func json(_ value: Any) -> String? {
        guard JSONSerialization.isValidJSONObject(value),
            let data = try? JSONSerialization.data(
                withJSONObject: value, options: [.sortedKeys, .withoutEscapingSlashes])
        else { return nil }
        return String(decoding: data, as: UTF8.self)
    }
}
