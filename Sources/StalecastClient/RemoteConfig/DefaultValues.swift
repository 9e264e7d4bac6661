import Foundation
import StalecastWire

/// Default values as the text a parameter would have.
enum DefaultValues {
    /// Texts of a dictionary of Foundation's or Swift's plain types: texts as they are, numbers as JSON spells them,
    /// booleans as `1` and `0`, which Firebase's SDK makes of them, `Data` as UTF-8, dates as RFC 3339, arrays and
    /// dictionaries as JSON. `NSNull` and values without such a text are left out.
    static func texts(of values: [String: Any]) -> [String: String] { values.compactMapValues(text) }

    /// Texts of a value that encodes as an object: each member is a parameter.
    ///
    /// - Throws: `EncodingError`; ``RemoteConfigCodableError`` when `value` is no object.
    static func texts(of value: some Encodable) throws -> [String: String] {
        let data = try JSONEncoder().encode(value)
        guard let object = JSONValue.ifValid(data)?.object else {
            throw RemoteConfigCodableError.invalidSetDefaultsInput(
                "defaults are a type with named members, or a dictionary by parameter name, and not \(type(of: value))")
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
        case let date as Date: Timestamp(date).description
        case let url as URL: url.absoluteString
        // Precedes LosslessStringConvertible, as which a Bool would become `true` or `false`.
        case let isOn as Bool: isOn ? "1" : "0"
        case let number as NSNumber: number.stringValue
        case let number as any LosslessStringConvertible: number.description
        default: json(value)
        }
    }

    private static func json(_ value: Any) -> String? {
        guard JSONSerialization.isValidJSONObject(value),
            let data = try? JSONSerialization.data(  // not JSON: no default
                withJSONObject: value, options: [.sortedKeys, .withoutEscapingSlashes])
        else { return nil }
        return String(decoding: data, as: UTF8.self)
    }
}
