import StalecastWire
import Yams

extension ConfigurationOption {
    static let webhooks = [
        receivers,
        ConfigurationOption(
            list: "webhooks.allowedAddresses", \.webhooks.allowedAddresses, .addressRange, .live,
            "Addresses that webhooks may call although they are not public, for example 127.0.0.0/8 to try things out."),
        ConfigurationOption(
            "webhooks.addressProfile", \.webhooks.addressProfile, .choice, .live,
            "For webhooks that name none: public refuses private networks, internal allows them; neither allows loopback."
        ),
        ConfigurationOption(
            "webhooks.httpsOnly", \.webhooks.httpsOnly, .flag, .live, "Refuse new webhooks whose URL is not https."),
        ConfigurationOption(
            "webhooks.keyFile", \.webhooks.keyFile, .optionalFile, .restart,
            "File with the key that secrets are sealed with (32 bytes in base64 or hexadecimal), such as a systemd "
                + "credential; without it webhooks.key in the data directory, made at first start."),
        ConfigurationOption(
            "webhooks.filesDirectory", \.webhooks.filesDirectory, .optionalFile, .live,
            "Directory of the certificate and key files that webhooks made through the API can name; without it none."),
        ConfigurationOption(
            "webhooks.requestOrigin", \.webhooks.requestOrigin, .dnsName, .restart,
            "The name receivers see in WebHook-Request-Origin."),
        ConfigurationOption(
            "webhooks.maxPerProject", \.webhooks.maxPerProject, .count(0...1_000_000, of: "webhooks"), .live,
            "Webhooks that can be made through the API in each project."),
        ConfigurationOption(
            "webhooks.maxInFlight", \.webhooks.maxInFlight, .count(1...10_000, of: "attempts"), .restart,
            "Attempts under way at one time; half of them are kept for webhooks that are well."),
        ConfigurationOption(
            "webhooks.disableAfter", \.webhooks.disableAfter, .duration(.seconds(60)...days(365)), .restart,
            "How long a webhook must have failed, in many attempts, before it is disabled."),
        ConfigurationOption(
            "webhooks.attemptRetention", \.webhooks.attemptRetention, .duration(.seconds(60)...days(365)), .restart,
            "How long attempts can be looked up."),
        ConfigurationOption(
            "webhooks.deadLetterRetention", \.webhooks.deadLetterRetention, .duration(.seconds(60)...days(3650)),
            .restart, "How long messages that were given up are kept."),
    ]

    /// Path of the file's webhooks.
    static let receiversPath = "webhooks.receivers"

    private static let receivers = ConfigurationOption(
        entries: receiversPath, \.webhooks.receivers, ReceiverField.all, .live,
        "Webhooks of this file; more can be made with `stalecast webhooks add` or the API.",
        spell: { "{name: \($0.name), project: \($0.project)}" },
        read: { $1.receiver($0) })
}

extension OptionKind<CIDR> {
    static let addressRange = OptionKind(form: "ADDRESS or ADDRESS/LENGTH") { text throws(InvalidValue) in
        do { return try CIDR(text) } catch { throw InvalidValue("\(error)") }
    } spell: {
        "\"\($0)\""
    }
}

extension OptionKind<String> {
    /// A name of DNS; the empty text is this host's.
    static let dnsName = OptionKind(form: "DNS name (\"\": this host's)") { text throws(InvalidValue) in
        guard text.isWord(0...253, and: "-.") else {
            throw InvalidValue("\"\(text)\" is no DNS name; it has letters, digits, hyphens and dots")
        }
        return text
    } spell: {
        $0.isEmpty ? "\"\"" : $0
    }
}

private func days(_ count: Int) -> Duration { .seconds(count * 86_400) }
