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
            name: "name", form: "1 to 64 characters of A-Z a-z 0-9 - _; unique in the project",
            meaning: "Its name; a renamed webhook is a new one."),
        EntryField(name: "project", form: "id; may be left out: demo", meaning: "The project it hears of."),
        EntryField(
            name: "url", form: "http or https URL; may be left out for format fcm", meaning: "Where requests go."),
        EntryField(
            name: "topics", form: "list of names; may be left out: [PUSH_RC]",
            meaning: "What it hears of; stalecast.webhooks brings messages about webhooks themselves, "
                + "stalecast.releases those about releases."),
        EntryField(
            name: "secretFiles", form: "list of files, at least one unless format is fcm",
            meaning:
                "Secrets (whsec_… or whsk_…, `stalecast webhooks new-secret` makes one): the current one first, those "
                + "that still sign beside it after it."),
        EntryField(
            name: "format", form: "standard (default), cloudevents-binary, cloudevents-structured or fcm",
            meaning: "What requests look like."),
        EntryField(
            name: "mode", form: "latest (default), all, fifo or fifo-advance",
            meaning: "The newest version only, or every one; in order with fifo."),
        EntryField(name: "headers", form: "mapping of names and values", meaning: "Sent with every request."),
        EntryField(
            name: "maxPerSecond", form: "number, 0.001 to 1000; may be left out: no limit",
            meaning: "Attempts per second at most."),
        EntryField(
            name: "timeout", form: "duration, 1s to 60s; may be left out: 15s",
            meaning: "For one attempt; in a cluster 30s at most."),
        EntryField(
            name: "minInterval", form: "duration, 0s to 1d; may be left out: 0s",
            meaning: "Between two deliveries of one scope."),
        EntryField(
            name: "caFile, certificateFile, keyFile", form: "PEM files",
            meaning: "A private authority, a client certificate with its key."),
        EntryField(
            name: "addressProfile", form: "public or internal; may be left out: webhooks.addressProfile",
            meaning: "Whether private networks may be called."),
        EntryField(
            name: "serviceAccountFile, tokenUrl", form: "JSON file; URL",
            meaning: "For format fcm: the service account's key, and where tokens are fetched if not at its token_uri."),
        EntryField(
            name: "verification", form: "none (default), challenge or cloudevents",
            meaning: "Whether the receiver is asked for its consent first."),
        EntryField(name: "description", form: "at most 256 characters", meaning: "For people."),
    ]

    static let names: [String] = ["project", "topics", "secretFiles", "headers"] + scalars.map(\.key)
}
