package import StalecastOutbound
import StalecastWire

/// URL and settings of a webhook before it is one. The members of its ``settings`` are members of it as well.
@dynamicMemberLookup
package struct WebhookDraft: Sendable, Equatable {
    /// nil while none was given.
    package var url: OutboundURL?
    package var settings = WebhookSettings()

    package init() {}

    package init(_ webhook: Webhook) { (url, settings) = (webhook.url, webhook.settings) }

    package subscript<Value>(dynamicMember path: WritableKeyPath<WebhookSettings, Value>) -> Value {
        get { settings[keyPath: path] }
        set { settings[keyPath: path] = newValue }
    }

    /// Takes over the consent to a webhook. It was given to a URL and a method; another of either asks anew.
    mutating func keepConsent(to webhook: Webhook) {
        let isKept = url == webhook.url && settings.verification.method == webhook.verification.method
        settings.verification = isKept ? webhook.verification : Verification(method: settings.verification.method)
    }
}

extension Webhook {
    init(
        id: WebhookID, _ draft: WebhookDraft, project: ProjectID, name: String? = nil, at now: Timestamp
    ) throws(RegistryProblem) {
        guard let url = draft.url else { throw .invalid(field: "url", "is missing") }
        self.init(id: id, project: project, name: name, url: url, settings: draft.settings, createdAt: now)
    }

    /// Makes this webhook with other settings, one generation on.
    func applying(_ draft: WebhookDraft, at now: Timestamp) -> Webhook {
        var (next, draft) = (self, draft)
        draft.keepConsent(to: self)
        next.url = draft.url ?? url
        next.settings = draft.settings
        next.updatedAt = now
        next.generation += 1
        return next
    }
}
