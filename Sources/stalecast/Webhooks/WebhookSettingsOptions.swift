import ArgumentParser
import Foundation
import StalecastWebhooks
import StalecastWire

/// Settings that an owner decides about a webhook, in `add` and `update`. Values are judged by the daemon, which names
/// the field.
struct WebhookSettingsOptions: ParsableArguments {
    @Option(
        name: .customLong("topic"),
        help: .value(
            "name",
            "Topic it hears of, repeatable (default: PUSH_RC); stalecast.webhooks brings messages about webhooks."),
        completion: .topics)
    var topics: [String] = []

    @Option(
        help: "standard (default), cloudevents-binary, cloudevents-structured or fcm.",
        completion: .list(["standard", "cloudevents-binary", "cloudevents-structured", "fcm"]))
    var format: String?

    @Option(
        help: "latest (default), all, fifo or fifo-advance.",
        completion: .list(["latest", "all", "fifo", "fifo-advance"]))
    var mode: String?

    @Option(name: .customLong("header"), help: .value("name: value", "Header sent with every request, repeatable."))
    var headers: [String] = []

    @Option(help: .value("rate", "Attempts per second at most, 0.001 to 1000."))
    var maxPerSecond: Double?

    @Option(help: .value("time", "Time limit of one attempt, 1s to 60s (default: 15s)."))
    var timeout: Span?

    @Option(help: .value("time", "Shortest time between two deliveries of one scope, 0s (default) to 1d."))
    var minInterval: Span?

    @Option(help: .value("name", "The receiver's private authority (PEM), a file in webhooks.filesDirectory."))
    var receiverCaFile: String?

    @Option(help: .value("name", "Client certificate (PEM), a file there."))
    var certificateFile: String?

    @Option(help: .value("name", "The client certificate's key (PEM), a file there."))
    var keyFile: String?

    @Option(
        help: "public or internal: whether private networks may be called.", completion: .list(["public", "internal"]))
    var addressProfile: String?

    @Option(help: .value("name", "For fcm: the service account's key (JSON), a file there."))
    var serviceAccountFile: String?

    @Option(help: .value("url", "For fcm: where tokens are fetched, if not at the key's token_uri."))
    var tokenUrl: String?

    @Option(
        help: "none (default), challenge or cloudevents: whether the receiver is asked for its consent first.",
        completion: .list(["none", "challenge", "cloudevents"]))
    var verification: String?

    @Option(name: [.long, .customLong("name")], help: "For people, at most 256 characters.")
    var description: String?

    func validate() throws {
        for header in headers where header.prefix(while: { $0 != ":" }).count == header.count || header.hasPrefix(":") {
            throw ValidationError("--header \"\(header)\" is not NAME: VALUE")
        }
        var names: Set<String> = []
        for header in headers where !names.insert(header.prefix { $0 != ":" }.lowercased()).inserted {
            throw ValidationError("--header \(header.prefix { $0 != ":" }) is given twice; a name has one value")
        }
    }

    /// The settings that were given, and their paths.
    var given: WebhookSettings {
        var settings = WebhookSettings()
        if !topics.isEmpty { settings.set("topics", .array(topics.map(JSONValue.string))) }
        if !headers.isEmpty { settings.set("headers", .object(headerObject)) }
        settings.set("format", format)
        settings.set("mode", mode)
        settings.set("limits.maxPerSecond", maxPerSecond.map(JSONValue.double))
        settings.set("limits.timeout", timeout?.duration.wireText)
        settings.set("limits.minInterval", minInterval?.duration.wireText)
        settings.set("tls.caFile", receiverCaFile)
        settings.set("tls.certificateFile", certificateFile)
        settings.set("tls.keyFile", keyFile)
        settings.set("addressProfile", addressProfile)
        settings.set("fcm.serviceAccountFile", serviceAccountFile)
        settings.set("fcm.tokenUrl", tokenUrl)
        settings.set("verification.method", verification)
        settings.set("description", description)
        return settings
    }

    private var headerObject: JSONObject {
        var object = JSONObject()
        for header in headers {
            let parts = header.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            object[String(parts[0])] = .string(parts[1].trimmingCharacters(in: .whitespaces))
        }
        return object
    }
}

/// Settings as the API's document, with the paths that are in it.
struct WebhookSettings {
    private(set) var paths: [String] = []
    private var members = JSONObject()

    var json: JSONValue { .object(members) }

    /// - Parameter path: `url`, or with one dot `limits.timeout`.
    mutating func set(_ path: String, _ value: JSONValue?) {
        guard let value else { return }
        paths.append(path)
        let names = path.split(separator: ".").map(String.init)
        guard names.count == 2 else { return members[path] = value }
        var inner = members[names[0]]?.object ?? JSONObject()
        inner[names[1]] = value
        members[names[0]] = .object(inner)
    }

    mutating func set(_ path: String, _ text: String?) { set(path, text.map(JSONValue.string)) }

    /// Names a path that the document lacks: it goes back to its default.
    mutating func reset(_ path: String) { paths.append(path) }
}
