import StalecastHTTP
import StalecastWire

/// An error as OFREP spells it.
package struct FlagRefusal: Error, Hashable, Sendable {
    /// Raw values are on the wire.
    package enum Code: String, Sendable, CaseIterable {
        case parseError = "PARSE_ERROR"
        case targetingKeyMissing = "TARGETING_KEY_MISSING"
        case invalidContext = "INVALID_CONTEXT"
        case flagNotFound = "FLAG_NOT_FOUND"
        case general = "GENERAL"
    }

    package let code: Code
    /// A sentence that says what to do.
    package let details: String
    package let status: Int
    /// Header lines that go with it, each ending in CRLF.
    var fields = ""

    init(_ code: Code, _ details: String, status: Int = 400) {
        (self.code, self.details, self.status) = (code, details, status)
    }

    init(_ error: GoogleError, _ code: Code = .general) {
        self.init(code, error.message, status: error.code)
        fields = error.fields
    }

    static let notFound = FlagRefusal(.flagNotFound, "no flag of this name; see the template's parameters", status: 404)
    static let noTargetingKey = FlagRefusal(
        .targetingKeyMissing, "the flag is for a percentage of clients; set targetingKey")
    static let noValue = FlagRefusal(.parseError, "the value is not of the flag's type; publish the template again")

    /// - Parameter key: the flag that was asked for; nil where all were.
    func json(of key: String?) -> JSONObject {
        var json: JSONObject = ["errorCode": .string(code.rawValue), "errorDetails": .string(details)]
        if let key { json["key"] = .string(key) }
        return json
    }
}
