public import Foundation

/// The value of a parameter, readable as several types. Conversions never fail: what does not fit is the type's empty
/// value, as in Firebase's SDK. ``decoded(asType:)`` is the one that throws.
public final class RemoteConfigValue: Sendable, CustomStringConvertible {
    /// The value as the server or the defaults spell it; empty for an unknown parameter.
    public let stringValue: String
    /// Source of the value.
    public let source: RemoteConfigSource

    /// A value of any text; useful in tests of code that takes a `RemoteConfigValue`.
    public init(_ text: String, source: RemoteConfigSource) {
        stringValue = text
        self.source = source
    }

    /// The number at the start of the text, else 0. Whole numbers of 64 bits are exact.
    public var numberValue: NSNumber {
        if let integer = Int64(stringValue) { return NSNumber(value: integer) }
        return NSNumber(value: leadingNumber)
    }

    /// True when the text begins with `Y`, `y`, `T`, `t`, or a number that begins with a digit other than 0, as
    /// `NSString.boolValue` says.
    public var boolValue: Bool {
        let text = stringValue.drop(while: \.isWhitespace)
        let digits = (text.first == "+" || text.first == "-" ? text.dropFirst() : text).drop { $0 == "0" }
        guard let first = digits.first else { return false }
        return first.isASCII && "123456789".contains(first) || text.first.map("YyTt".contains) ?? false
    }

    /// The text in UTF-8.
    public var dataValue: Data { Data(stringValue.utf8) }

    /// The text as a JSON object or array of Foundation's types; nil when it is something else.
    public var jsonValue: Any? { try? JSONSerialization.jsonObject(with: dataValue) }

    /// The value as `type`: texts, numbers, booleans, `Data`, `URL`, and otherwise JSON.
    ///
    /// - Throws: `DecodingError` with what was expected and where.
    public func decoded<Value: Decodable>(asType type: Value.Type = Value.self) throws -> Value {
        try ParameterValueDecoder.decode(type, from: stringValue, path: [])
    }

    /// The value as a text.
    public var description: String { stringValue }

    /// Number that `strtod` reads, without hexadecimal, infinity and NaN.
    private var leadingNumber: Double {
        let text = stringValue.drop(while: \.isWhitespace).utf8
        let length = text.prefix { "+-.0123456789eE".utf8.contains($0) }.count
        for count in stride(from: min(length, 400), to: 0, by: -1) {
            if let number = Double(String(decoding: text.prefix(count), as: UTF8.self)) { return number }
        }
        return 0
    }
}
