/// The keys of an entry of `webhooks.receivers`, and where each stands in the document the API would be sent.
enum ReceiverField {
    /// Way in which a key's text becomes a member of the document.
    enum Kind {
        case text, number, duration
    }

    /// Keys whose value is one scalar, with the member they become.
    static let scalars: [(key: String, member: String, kind: Kind)] = [
        ("url", "url", .text), ("format", "format", .text), ("mode", "mode", .text),
        ("description", "description", .text), ("maxPerSecond", "limits.maxPerSecond", .number),
        ("timeout", "limits.timeout", .duration), ("minInterval", "limits.minInterval", .duration),
        ("caFile", "tls.caFile", .text), ("certificateFile", "tls.certificateFile", .text),
        ("keyFile", "tls.keyFile", .text), ("addressProfile", "addressProfile", .text),
        ("serviceAccountFile", "fcm.serviceAccountFile", .text), ("tokenUrl", "fcm.tokenUrl", .text),
        ("verification", "verification.method", .text),
    ]

    /// Words of all keys.
    static let all: [EntryField] = [
        .required(
            "name", "1 to 64 characters of A-Z a-z 0-9 - _; unique in the project",
            "Its name; a renamed webhook is a new one."),
        .optional("project", "id", or: "demo", "The project it hears of."),
        .optional("url", "http or https URL; may be left out for format fcm", or: nil, "Where requests go."),
        .optional(
            "topics", "list of names", or: "[PUSH_RC]",
            "What it hears of; stalecast.webhooks brings messages about webhooks themselves, "
                + "stalecast.releases those about releases."),
        .optional(
            "secretFiles", "list of files, at least one unless format is fcm", or: nil,
            "Secrets (whsec_… or whsk_…, `stalecast webhooks new-secret` makes one): the current one first, those "
                + "that still sign beside it after it."),
        .optional(
            "format", "standard (default), cloudevents-binary, cloudevents-structured or fcm", or: nil,
            "What requests look like."),
        .optional(
            "mode", "latest (default), all, fifo or fifo-advance", or: nil,
            "The newest version only, or every one; in order with fifo."),
        .optional("headers", "mapping of names and values", or: nil, "Sent with every request."),
        .optional("maxPerSecond", "number, 0.001 to 1000", or: "no limit", "Attempts per second at most."),
        .optional("timeout", "duration, 1s to 60s", or: "15s", "For one attempt; in a cluster 30s at most."),
        .optional("minInterval", "duration, 0s to 1d", or: "0s", "Between two deliveries of one scope."),
        .optional(
            "caFile, certificateFile, keyFile", "PEM files", or: nil,
            "A private authority, a client certificate with its key."),
        .optional(
            "addressProfile", "public or internal", or: "webhooks.addressProfile",
            "Whether private networks may be called."),
        .optional(
            "serviceAccountFile, tokenUrl", "JSON file; URL", or: nil,
            "For format fcm: the service account's key, and where tokens are fetched if not at its token_uri."),
        .optional(
            "verification", "none (default), challenge or cloudevents", or: nil,
            "Whether the receiver is asked for its consent first."),
        .optional("description", "at most 256 characters", or: nil, "For people."),
    ]
}
