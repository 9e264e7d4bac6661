package import StalecastOutbound
package import StalecastWire

/// Settings of ``Webhook`` that its owner decides, with their defaults, before it is one.
package struct WebhookDraft: Sendable, Equatable {
    /// nil while none was given.
    package var url: OutboundURL?
    package var topics: [TopicName] = [.pushRC]
    package var format = WebhookFormat.standard
    package var mode = DeliveryMode.latest
    package var headers: [OutboundHeader] = []
    package var limits = WebhookLimits()
    package var caFile: String?
    package var certificateFile: String?
    package var keyFile: String?
    package var profile = AddressPolicy.Profile.public
    package var serviceAccountFile: String?
    package var tokenURL: OutboundURL?
    package var verification = Verification.Method.none
    package var description = ""
    package var isPaused = false

    package init() {}

    package init(_ webhook: Webhook) {
        url = webhook.url
        topics = webhook.topics
        format = webhook.format
        mode = webhook.mode
        headers = webhook.headers
        limits = webhook.limits
        caFile = webhook.tls?.caFile
        certificateFile = webhook.tls?.certificateFile
        keyFile = webhook.tls?.keyFile
        profile = webhook.profile
        serviceAccountFile = webhook.fcm?.serviceAccountFile
        tokenURL = webhook.fcm?.tokenURL
        verification = webhook.verification.method
        description = webhook.description
        isPaused = webhook.isPaused
    }

    var tls: OutboundTLS? {
        guard caFile != nil || certificateFile != nil || keyFile != nil else { return nil }
        return OutboundTLS(caFile: caFile, certificateFile: certificateFile, keyFile: keyFile)
    }

    var fcm: Webhook.FCMSettings? {
        guard format == .fcm, let serviceAccountFile else { return nil }
        return Webhook.FCMSettings(serviceAccountFile: serviceAccountFile, tokenURL: tokenURL)
    }

    /// Consent was given to a URL and a method; another of either asks anew.
    func consent(keptFrom webhook: Webhook?) -> Verification {
        guard let webhook, webhook.verification.method == verification, webhook.url == url else {
            return Verification(method: verification)
        }
        return webhook.verification
    }
}

extension Webhook {
    /// Makes this webhook with other settings, one generation on.
    func applying(_ draft: WebhookDraft, at now: Timestamp) -> Webhook {
        var next = self
        next.url = draft.url ?? url
        next.topics = draft.topics
        next.format = draft.format
        next.mode = draft.mode
        next.headers = draft.headers
        next.limits = draft.limits
        next.tls = draft.tls
        next.profile = draft.profile
        next.fcm = draft.fcm
        next.verification = draft.consent(keptFrom: self)
        next.description = draft.description
        next.isPaused = draft.isPaused
        next.updatedAt = now
        next.generation += 1
        return next
    }
}
