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

    /// The member of a document in which the field stands, and the member of that one; nil for a field at the top.
    var path: (outer: String, inner: String?) {
        let names = rawValue.split(separator: ".").map(String.init)
        return (names[0], names.count > 1 ? names[1] : nil)
    }

    /// The value at this path of a document; nil when it is missing, `null` included.
    func value(in document: JSONValue) -> JSONValue? {
        let (outer, inner) = path
        var value = document[outer]
        if let inner { value = value?[inner] }
        return value.flatMap { $0.isNull ? nil : $0 }
    }

    /// The value that a webhook's document has at this path; nil where it has none.
    func value(of webhook: Webhook, hidesCredentials: Bool) -> JSONValue? {
        let settings = webhook.settings
        return switch self {
        case .url: .string(webhook.url.text)
        case .topics: .array(settings.topics.map { .string($0.description) })
        case .format: .string(settings.format.rawValue)
        case .mode: .string(settings.mode.name)
        case .headers: settings.headers.isEmpty ? nil : .object(headers(settings.headers, hidesCredentials))
        case .maxPerSecond: settings.limits.maxPerSecond.map { .double($0) }
        case .timeout: .string(settings.limits.timeout.wireText)
        case .minInterval: .string(settings.limits.minInterval.wireText)
        case .caFile: .described(settings.caFile)
        case .certificateFile: .described(settings.certificateFile)
        case .keyFile: .described(settings.keyFile)
        case .addressProfile: .string(settings.profile.rawValue)
        case .serviceAccountFile: .described(settings.serviceAccountFile)
        case .tokenURL: .described(settings.tokenURL)
        case .verification: .string(settings.verification.method.rawValue)
        case .description: settings.description.isEmpty ? nil : .string(settings.description)
        case .paused: .bool(settings.isPaused)
        }
    }

    private func headers(_ headers: [OutboundHeader], _ hidesCredentials: Bool) -> JSONObject {
        var object = JSONObject()
        for header in headers {
            let isHidden = hidesCredentials && ReservedHeaders.isSecret(header.name)
            object[header.name] = .string(isHidden ? Self.hiddenValue : header.value)
        }
        return object
    }

    /// Puts `value` into the draft; nil is the default.
    func read(_ value: JSONValue?, into draft: inout WebhookDraft, files: FileNames) throws(RegistryProblem) {
        let defaults = WebhookSettings()
        switch self {
        case .url: draft.url = try value.map(outboundURL)
        case .topics: draft.topics = try value.map(topicNames) ?? defaults.topics
        case .format: draft.format = try choice(value) ?? defaults.format
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
        case .addressProfile: draft.profile = try choice(value) ?? defaults.profile
        case .serviceAccountFile: draft.serviceAccountFile = try file(value, files)
        case .tokenURL: draft.tokenURL = try value.map(outboundURL)
        case .verification: draft.verification.method = try choice(value) ?? .none
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
