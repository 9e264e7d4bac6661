import StalecastOutbound
import StalecastWire

/// A setting as the API names it; raw values are paths in the JSON document and in an `updateMask`.
enum WebhookField: String, CaseIterable {
    case url
    case topics
    case format
    case mode
    case headers
    case maxPerSecond = "limits.maxPerSecond"
    case timeout = "limits.timeout"
    case minInterval = "limits.minInterval"
    case caFile = "tls.caFile"
    case certificateFile = "tls.certificateFile"
    case keyFile = "tls.keyFile"
    case addressProfile
    case serviceAccountFile = "fcm.serviceAccountFile"
    case tokenURL = "fcm.tokenUrl"
    case verification = "verification.method"
    case description
    case paused

    static let maxDescription = 256
    static let maxTopics = 64

    /// The fields that `path` stands for: itself, or all below it.
    static func named(_ path: String) -> [WebhookField] {
        allCases.filter { $0.rawValue == path || $0.rawValue.hasPrefix(path + ".") }
    }

    /// The value at this path of a document; nil when it is missing, `null` included.
    func value(in document: JSONValue) -> JSONValue? {
        var value: JSONValue? = document
        for name in rawValue.split(separator: ".") { value = value?[String(name)] }
        return value.flatMap { $0.isNull ? nil : $0 }
    }

    /// Puts `value` into the draft; nil is the default.
    func read(_ value: JSONValue?, into draft: inout WebhookDraft, files: FileNames) throws(RegistryProblem) {
        let defaults = WebhookDraft()
        switch self {
        case .url: draft.url = try value.map(outboundURL)
        case .topics: draft.topics = try value.map(topicNames) ?? defaults.topics
        case .format: draft.format = try value.map { v throws(RegistryProblem) in try choice(v) } ?? defaults.format
        case .mode: draft.mode = try value.map(deliveryMode) ?? defaults.mode
        case .headers: draft.headers = try headers(value, keeping: draft.headers, files)
        case .maxPerSecond: draft.limits.maxPerSecond = try value.map(rate)
        case .timeout: draft.limits.timeout = try duration(value, WebhookLimits.timeoutRange) ?? defaults.limits.timeout
        case .minInterval:
            draft.limits.minInterval =
                try duration(value, WebhookLimits.minIntervalRange) ?? defaults.limits.minInterval
        case .caFile: draft.caFile = try file(value, files)
        case .certificateFile: draft.certificateFile = try file(value, files)
        case .keyFile: draft.keyFile = try file(value, files)
        case .addressProfile:
            draft.profile = try value.map { v throws(RegistryProblem) in try choice(v) } ?? defaults.profile
        case .serviceAccountFile: draft.serviceAccountFile = try file(value, files)
        case .tokenURL: draft.tokenURL = try value.map(outboundURL)
        case .verification:
            draft.verification = try value.map { v throws(RegistryProblem) in try choice(v) } ?? defaults.verification
        case .description: draft.description = try value.map(descriptionText) ?? ""
        case .paused: draft.isPaused = try value.map(flag) ?? false
        }
    }

    func problem(_ sentence: String, at suffix: String = "") -> RegistryProblem {
        .invalid(field: rawValue + suffix, sentence)
    }
}

/// Rule by which names of files in a document become paths.
package enum FileNames: Sendable {
    /// Names are paths already: our own records, the configuration file.
    case paths
    /// Names are within this directory; nil refuses them.
    case within(String?)
}
