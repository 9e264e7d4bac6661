package import StalecastTemplate
package import StalecastWire

/// Reads what a client of another vendor's protocol says of itself.
package enum FlagContext {
    /// The targeting key is the instance's id; what is no input of Firebase's conditions is a custom signal.
    package static func context(_ members: some FlagMembers, at now: Timestamp) -> EvaluationContext {
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

package protocol FlagMembers: FetchMembers {
    /// Members that are no ``FetchField``.
    var signals: [String: String] { get }
}

extension FetchScan: FlagMembers {
    package var signals: [String: String] { texts(.customSignals) }
}

/// A context, read as JSON values.
package struct FlagFields: FlagMembers {
    private var texts: [FetchField: String] = [:]
    package private(set) var signals: [String: String] = [:]

    /// - Parameters:
    ///   - attributes: by name; a ``FetchField`` but for the instance's id, or a custom signal.
    ///   - id: the instance's.
    init(_ attributes: [(name: String, value: JSONValue)], id: String) {
        for (name, value) in attributes {
            let field = FetchNames.flags.field(named: name)
            set(field == .instanceID ? nil : field, name, value)
        }
        texts[.instanceID] = id
    }

    private mutating func set(_ field: FetchField?, _ name: String, _ value: JSONValue) {
        let text = FetchFields.text(value)
        if let field { texts[field] = text } else { signals[name] = text }
    }

    /// Reads a body that may be anything.
    ///
    /// - Throws: `PARSE_ERROR` for a body that is not an object, `INVALID_CONTEXT` for an invalid context.
    package init(_ plain: [UInt8]) throws(FlagRefusal) {
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
            let field = FetchNames.flags.field(named: name)
            if field == .instanceID, !value.isNull, value.string == nil {
                throw FlagRefusal(.invalidContext, "targetingKey must be a text")
            }
            set(field, name, value)
        }
    }

    package func text(_ field: FetchField) -> String? {
        texts[field].flatMap { $0.isEmpty || $0 == FetchField.printedNil.description ? nil : $0 }
    }

    package func has(_ field: FetchField) -> Bool { text(field) != nil }
    package func texts(_ field: FetchField) -> [String: String] { field == .customSignals ? signals : [:] }
}
