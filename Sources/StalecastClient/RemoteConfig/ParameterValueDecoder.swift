import Foundation
import StalecastWire

/// Decodes one parameter's text as a Swift type.
enum ParameterValueDecoder {
    /// - Parameter path: where the value is, for errors.
    /// - Throws: `DecodingError`.
    static func decode<Value: Decodable>(
        _ type: Value.Type, from text: String, path: [any CodingKey]
    ) throws -> Value {
        if let value = try scalar(type, text, path) as? Value { return value }
        do {
            return try JSONDecoder().decode(type, from: Data(text.utf8))
        } catch DecodingError.dataCorrupted(let context) where context.codingPath.isEmpty {
            throw corrupted("the value is not JSON: \"\(text.prefix(80))\"", path)
        }
    }

    /// The types a parameter's text stands for itself; nil for all others, which are read as JSON.
    private static func scalar(_ type: any Decodable.Type, _ text: String, _ path: [any CodingKey]) throws -> Any? {
        switch type {
        case is String.Type: return text
        case is Data.Type: return Data(text.utf8)
        case is Bool.Type: return RemoteConfigValue(text, source: .remote).boolValue
        case is URL.Type:
            guard let url = URL(string: text) else { throw corrupted("the value is not a URL", path) }
            return url
        case is Date.Type:
            if let seconds = Double(text) { return Date(timeIntervalSince1970: seconds) }
            guard let moment = Timestamp(text) else {
                throw corrupted("the value is neither seconds since 1970 nor an RFC 3339 time", path)
            }
            return Date(timeIntervalSince1970: Double(moment.microseconds) / 1e6)
        case let number as any LosslessStringConvertible.Type where isNumber(type):
            guard let value = number.init(text.trimmingCharacters(in: .whitespaces)) else {
                throw corrupted("\"\(text.prefix(80))\" is not a number of type \(type)", path)
            }
            return value
        default: return nil
        }
    }

    private static func isNumber(_ type: any Decodable.Type) -> Bool {
        type is any FixedWidthInteger.Type || type is any BinaryFloatingPoint.Type
    }

    private static func corrupted(_ reason: String, _ path: [any CodingKey]) -> DecodingError {
        .dataCorrupted(DecodingError.Context(codingPath: path, debugDescription: reason))
    }
}
