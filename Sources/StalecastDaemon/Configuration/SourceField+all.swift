import StalecastOutbound
import StalecastSources

extension SourceField {
    /// Every key besides `scope` and `kind`, in the order of the reference text.
    static let all: [SourceField] = common + document + remoteAccess + firebase + fence + triggers

    private static let common = [
        SourceField(
            "serve", \.serve, .choice, for: fed, or: "full",
            "full answers fetches from the copy; notify leaves them to the origin and only tells of changes."),
        SourceField(
            optional: "interval", \.interval, .duration(.milliseconds(100)...(.seconds(86_400))), for: fed,
            or: "30s, for file 5s", "Between two looks, + or - 10 %."),
        SourceField(
            "maxAge", \.maxAge, .duration(.zero...(.seconds(30 * 86_400))), for: fed, or: "0s, never",
            "Age of the last successful look from which the daemon says that it is not ready."),
        SourceField(
            "herdBudget", \.herd.budget, .count(0...10_000_000, of: "requests per second"),
            for: Set(SourceKind.allCases), or: "0, no window",
            "What fetches may cost the origin: messages ask clients to spread them over subscribers / budget."),
        SourceField(
            "herdBudgetLeast", \.herd.least, .count(0...10_000_000, of: "requests per second"),
            for: Set(SourceKind.allCases), or: "a tenth of herdBudget",
            "Where the budget goes when fetches fail or become slow, by 0.7 with each such version."),
        SourceField(
            "herdBudgetMost", \.herd.most, .count(0...10_000_000, of: "requests per second"),
            for: Set(SourceKind.allCases), or: "herdBudget",
            "Where it goes while all is well, by a twentieth of herdBudget with each window."),
        SourceField(
            "herdLongest", \.herd.longest, .duration(.seconds(1)...(.seconds(3600))), for: Set(SourceKind.allCases),
            or: "5m", "The longest herd window."),
    ]

    private static let document = [
        SourceField(
            optional: "path", \.path, .file("file or directory"), for: [.file],
            "The template, or a directory of *.json, *.yaml and *.yml that make one together."),
        SourceField(
            optional: "url", \.url, .baseURL, for: [.firebase], or: "Google's", "For firebase, where the REST API is."),
        SourceField(optional: "url", \.url, .sourceURL, for: [.http], "For http, the document."),
        SourceField(
            "format", \.document.format, .choice, for: documents, or: "auto",
            "auto goes by the name of a file, the Content-Type, the first character."),
        SourceField(
            "shape", \.document.shape, .choice, for: documents, or: "template",
            "values is a plain map of names and values, or a list of such maps of which the first wins."),
        SourceField(
            "contentPointer", \.document.content, .pointer, for: documents, or: "the whole document",
            "Where in the document the template is."),
        SourceField(
            optional: "versionPointer", \.document.version, .pointer, for: documents, or: "versions are counted here",
            "Where in the document its version is, a number that grows."),
        SourceField(
            "versions", \.versions, .choice, for: [.firebase], or: "origin",
            "counted numbers versions here, for an origin that starts again at 1."),
        SourceField(
            "maxBytes", \.maxBytes, .size(1024...(256 << 20)), for: fed, or: "8MiB",
            "The largest document that is read."),
    ]

    private static let remoteAccess = [
        SourceField(
            "timeout", \.access.timeout, .duration(.milliseconds(100)...(.seconds(300))), for: remote, or: "15s",
            "For one request."),
        SourceField(headers: "headers", for: remote, "Sent with every request."),
        SourceField(
            optional: "tokenFile", \.access.tokenFile, .file("file"), for: remote,
            "Holds a bearer token for the origin; read again whenever it changes."),
        SourceField(
            optional: "caFile", \.access.tls.caFile, .file("PEM file"), for: remote,
            "A private authority of the origin's host; it and the certificate are not used for other hosts."),
        SourceField(
            optional: "certificateFile", \.access.tls.certificateFile, .file("PEM file"), for: remote,
            "A client certificate, together with keyFile."),
        SourceField(optional: "keyFile", \.access.tls.keyFile, .file("PEM file"), for: remote, "Its key."),
    ]

    private static let firebase = [
        SourceField(
            optional: "originProject", \.firebase.project, .originProject, for: [.firebase], or: "as here",
            "The project's name at the origin."),
        SourceField(
            optional: "originNamespace", \.firebase.namespace, .namespace, for: [.firebase], or: "as here",
            "The namespace's name at the origin."),
        SourceField(
            optional: "serviceAccountFile", \.firebase.serviceAccountFile, .file("JSON file"), for: [.firebase],
            "Key of the service account whose tokens the origin wants."),
        SourceField(
            optional: "tokenUrl", \.firebase.tokenURL, .sourceURL, for: [.firebase], or: "the key file's token_uri",
            "Where its tokens are fetched."),
        SourceField(
            optional: "apiKey", \.firebase.apiKey, .text("key"), for: [.firebase],
            "With the key of an app the origin's real-time stream is listened to; looks are then only a safety net."),
        SourceField(
            optional: "appId", \.firebase.appID, .text("id; needed with apiKey at Google"), for: [.firebase],
            "The app the key belongs to."),
        SourceField(
            optional: "realtimeUrl", \.firebase.realtimeURL, .baseURL, for: [.firebase],
            or: "Google's, with url set that one", "Where the stream is."),
        SourceField(
            optional: "installationsUrl", \.firebase.installationsURL, .baseURL, for: [.firebase],
            or: "Google's, with url set none", "Where the stream's installation is registered."),
    ]

    private static let fence = [
        SourceField(
            optional: "fenceUrl", \.fence.url, .sourceURL, for: fed,
            "A URL that answers as the origin's clients are answered; versions are announced when they show there."),
        SourceField(
            "fenceProof", \.fence.proof, .choice, for: fed, or: "etag",
            "What shows the version: the ETag, the number at fencePointer, a client's fetch, the same content."),
        SourceField(
            optional: "fencePointer", \.fence.pointer, .pointer, for: fed, "Where fenceProof pointer finds the version."
        ),
        SourceField(
            optional: "fenceCaFile", \.fence.caFile, .file("PEM file"), for: fed,
            or: "caFile for the origin's host, the system's for others", "A private authority of the host of fenceUrl."),
        SourceField(
            "fenceWait", \.fence.wait, .duration(.zero...(.seconds(300))), for: fed, or: "2s",
            "How long to wait for that; then the version is announced with \"fence\":\"timeout\"."),
    ]

    private static let triggers = [
        SourceField(
            list: "triggerTokenFiles", \.triggers.tokenFiles, for: fed,
            "Tokens that may post to the project's triggers to make this scope look now, and nothing else."),
        SourceField(
            list: "triggerSecretFiles", \.triggers.secretFiles, for: fed,
            "Secrets (whsec_… or whpk_…) of senders that sign such posts by Standard Webhooks."),
    ]
}
