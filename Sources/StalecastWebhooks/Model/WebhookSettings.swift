package import StalecastOutbound
package import StalecastWire

/// Settings of a webhook that its owner decides, its URL aside, with their defaults.
package struct WebhookSettings: Sendable, Equatable {
    /// Topics, at least one, without repetition. ``TopicName/webhookOperations`` is delivery's own.
    package var topics: [TopicName] = [.pushRC]
    package var format = WebhookFormat.standard
    package var mode = DeliveryMode.latest
    /// Sent with every request besides the format's own; none of ``ReservedHeaders``.
    package var headers: [OutboundHeader] = []
    package var limits = WebhookLimits()
    package var caFile: String?
    package var certificateFile: String?
    package var keyFile: String?
    /// Addresses to which the name may lead, besides those the configuration allows.
    package var profile = AddressPolicy.Profile.public
    /// Path of the service account's key file (JSON); nil for formats other than `fcm`.
    package var serviceAccountFile: String?
    /// URL where tokens for format `fcm` are fetched; nil is the key file's `token_uri`, and for other formats.
    package var tokenURL: OutboundURL?
    package var verification = Verification()
    /// Description for people; at most 256 characters.
    package var description = ""
    /// Stopped by the operator.
    package var isPaused = false

    package init() {}

    /// Private CA, client certificate; nil for the system's trust and no certificate.
    var tls: OutboundTLS? {
        guard caFile != nil || certificateFile != nil || keyFile != nil else { return nil }
        return OutboundTLS(caFile: caFile, certificateFile: certificateFile, keyFile: keyFile)
    }
}
