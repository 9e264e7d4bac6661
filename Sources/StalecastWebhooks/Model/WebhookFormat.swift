package enum WebhookFormat: String, Sendable, Hashable, CaseIterable {
    /// Standard Webhooks 1.0.0: signed JSON `{"type":"config.stale","timestamp":…,"data":{…}}`. The default.
    case standard
    /// A CloudEvent in HTTP headers, its data as body, of Firebase's type: what `onConfigUpdated` handlers take.
    case cloudEventsBinary = "cloudevents-binary"
    /// One JSON document with the same event, `application/cloudevents+json`.
    case cloudEventsStructured = "cloudevents-structured"
    /// FCM HTTP v1 `messages:send` to the topic's name, with a service account's token.
    case fcm

    /// Whether requests carry the three `webhook-…` headers; `fcm` proves itself with a bearer token instead.
    package var isSigned: Bool { self != .fcm }
}
