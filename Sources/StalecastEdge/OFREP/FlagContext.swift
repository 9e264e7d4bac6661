import StalecastHTTP
package import StalecastTemplate
package import StalecastWire

/// Reads what an OpenFeature client says of itself.
package enum FlagContext {
    /// Reads a body that may be anything.
    ///
    /// - Throws: `PARSE_ERROR` for what is no object, `INVALID_CONTEXT` for a context that is none.
    package static func read(_ plain: [UInt8], at now: Timestamp) throws(FlagRefusal) -> EvaluationContext {
        context(try FlagFields(plain), at: now)
    }

    /// Reads a body that was scanned in place, as ``read(_:at:)`` does.
    package static func read(_ scan: FetchScan, at now: Timestamp) -> EvaluationContext { context(scan, at: now) }

    /// The targeting key is the instance's id; what is no input of Firebase's conditions is a custom signal.
    static func context(_ members: some FlagMembers, at now: Timestamp) -> EvaluationContext {
        var context = EvaluationContext(
            appID: members.text(.appID), appInstanceID: members.text(.instanceID), countryCode: members.text(.country),
            languageCode: members.text(.language), timeZone: members.text(.timeZone),
            appVersion: members.text(.appVersion), appBuild: members.text(.appBuild),
            firstOpenTime: members.text(.firstOpen).flatMap { Timestamp($0) },
            customSignals: members.signals, now: now)
        if let platform = members.text(.platform), platform.utf8.count <= 7 {
            context.statedPlatform = ["ios", "android", "web"].first { $0 == platform.lowercased() }
        }
        return context
    }
}

/// The members of a context.
protocol FlagMembers: FetchMembers {
    /// Members that are no ``FetchField``.
    var signals: [String: String] { get }
}

extension FetchScan: FlagMembers {
    var signals: [String: String] { texts(.customSignals) }
}

/// A context, read as JSON values.
struct FlagFields: FlagMembers {
    private var texts: [FetchField: String] = [:]
    private(set) var signals: [String: String] = [:]

    init(_ plain: [UInt8]) throws(FlagRefusal) {
        let body: JSONObject
        do { body = try LenientJSON.object(plain) } catch {
            throw FlagRefusal(.parseError, "the body must be a JSON object: \(error.description)")
        }
        guard let value = body["context"], !value.isNull else { return }
        guard let context = value.object, context.count <= FetchRequest.maxAttributes else {
            throw FlagRefusal(
                .invalidContext, "context must be an object of at most \(FetchRequest.maxAttributes) members")
        }
        for (name, value) in context.members {
            let field = FetchNames.flags.field(named: name.utf8)
            if field == .instanceID, !value.isNull, value.string == nil {
                throw FlagRefusal(.invalidContext, "targetingKey must be a text")
            }
            let text = FetchFields.text(value)
            if let field { texts[field] = text } else { signals[name] = text }
        }
    }

    func text(_ field: FetchField) -> String? {
        texts[field].flatMap { $0.isEmpty || $0 == FetchField.printedNil.description ? nil : $0 }
    }

    func has(_ field: FetchField) -> Bool { text(field) != nil }
    func texts(_ field: FetchField) -> [String: String] { field == .customSignals ? signals : [:] }
}

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
        self.code = code
        self.details = details
        self.status = status
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
