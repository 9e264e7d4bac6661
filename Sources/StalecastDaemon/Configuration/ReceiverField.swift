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

    /// Fields for the reference text.
    static let all = [
        EntryField(
            "name", "1 to 64 characters of A-Z a-z 0-9 - _; unique in the project",
            "Its name; a renamed webhook is a new one."),
        EntryField("project", "id; may be left out: demo", "The project it hears of."),
        EntryField(
            "url", "http or https URL; may be left out for format fcm", "Where requests go."),
        EntryField(
            "topics", "list of names; may be left out: [PUSH_RC]",
            "What it hears of; stalecast.webhooks brings messages about webhooks themselves, "
                + "stalecast.releases those about releases."),
        EntryField(
            "secretFiles", "list of files, at least one unless format is fcm",
            "Secrets (whsec_… or whsk_…, `stalecast webhooks new-secret` makes one): the current one first, those "
                + "that still sign beside it after it."),
        EntryField(
            "format", "standard (default), cloudevents-binary, cloudevents-structured or fcm",
            "What requests look like."),
        EntryField(
            "mode", "latest (default), all, fifo or fifo-advance",
            "The newest version only, or every one; in order with fifo."),
        EntryField("headers", "mapping of names and values", "Sent with every request."),
        EntryField(
            "maxPerSecond", "number, 0.001 to 1000; may be left out: no limit",
            "Attempts per second at most."),
        EntryField(
            "timeout", "duration, 1s to 60s; may be left out: 15s",
            "For one attempt; in a cluster 30s at most."),
        EntryField(
            "minInterval", "duration, 0s to 1d; may be left out: 0s",
            "Between two deliveries of one scope."),
        EntryField(
            "caFile, certificateFile, keyFile", "PEM files",
            "A private authority, a client certificate with its key."),
        EntryField(
            "addressProfile", "public or internal; may be left out: webhooks.addressProfile",
            "Whether private networks may be called."),
        EntryField(
            "serviceAccountFile, tokenUrl", "JSON file; URL",
            "For format fcm: the service account's key, and where tokens are fetched if not at its token_uri."),
        EntryField(
            "verification", "none (default), challenge or cloudevents",
            "Whether the receiver is asked for its consent first."),
        EntryField("description", "at most 256 characters", "For people."),
    ]

    static let names: [String] = ["project", "topics", "secretFiles", "headers"] + scalars.map(\.key)
}
