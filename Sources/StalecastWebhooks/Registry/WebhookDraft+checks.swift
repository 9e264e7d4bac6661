import Foundation
import StalecastOutbound
import StalecastWire

extension WebhookDraft {
    private static let fcmHost = "fcm.googleapis.com"
    private static let tokenHost = "oauth2.googleapis.com"

    /// Completes the draft and checks what takes more than one field or the operator's rules. Reads the files it names.
    ///
    /// - Throws: ``RegistryProblem/invalid(field:_:)``, for the first field that is wrong.
    mutating func finish(in project: ProjectID, _ rules: WebhookRules) throws(RegistryProblem) {
        if settings.format == .fcm { try finishFCM() }
        guard let url else { throw .invalid(field: "url", "is missing; name where requests are sent") }
        try check(url, rules)
        for (position, topic) in settings.topics.enumerated() where !rules.isKnownTopic(project, topic) {
            let known = rules.topics(project).map(\.description).joined(separator: ", ")
            throw .invalid(
                field: "topics[\(position)]",
                "no scope of project \(project) is bound to topic \(topic); there are \(known), and "
                    + "\(TopicName.webhookOperations) for messages about webhooks, "
                    + "\(TopicName.releaseOperations) for messages about releases")
        }
        try checkTLS(url)
        if settings.format != .fcm, settings.serviceAccountFile != nil || settings.tokenURL != nil {
            throw .invalid(field: "fcm", "belongs to format fcm only")
        }
    }

    /// Refuses to send a service account's token, or a request for one, elsewhere than to Google: the right to change a
    /// webhook is no right to use the operator's key files for a host of one's choice. Receivers of the configuration
    /// file are not asked this.
    func keepTokensAtGoogle() throws(RegistryProblem) {
        guard settings.format == .fcm else { return }
        for (field, url, host) in [("url", url, Self.fcmHost), ("fcm.tokenUrl", settings.tokenURL, Self.tokenHost)] {
            guard let url, url.scheme != "https" || url.host != host || url.port != 443 else { continue }
            throw .invalid(
                field: field,
                "must be at https://\(host) for format fcm; a receiver in the configuration file (webhooks.receivers) may "
                    + "name another host")
        }
    }

    /// Refuses to send header values that answers hide to another origin, unless the request itself gives them: the
    /// right to change a webhook is no right to read its credentials.
    func refuseHiddenHeaders(of webhook: Webhook, _ document: JSONValue) throws(RegistryProblem) {
        guard let url, !url.isSameOrigin(as: webhook.url) else { return }
        let given = document["headers"]?.object?.members ?? []
        for header in settings.headers where ReservedHeaders.isSecret(header.name) {
            let isGiven = given.contains {
                $0.0.lowercased() == header.name.lowercased() && $0.1.string == header.value
            }
            guard !isGiven else { continue }
            throw .invalid(
                field: "headers[\(header.name)]",
                "has a hidden value, which is not sent to another host, port or scheme; give the value again, or leave "
                    + "the header out")
        }
    }

    /// An address in the URL itself can be judged at once. What a name leads to is judged when a connection is made, but
    /// one that leads nowhere is refused here rather than tried for ever.
    private func check(_ url: OutboundURL, _ rules: WebhookRules) throws(RegistryProblem) {
        if rules.httpsOnly, url.scheme != "https" {
            throw .invalid(field: "url", "must begin with https:// (webhooks.httpsOnly)")
        }
        if let sentence = url.hostProblem { throw .invalid(field: "url", sentence) }
        let policy = rules.policy(of: settings.profile)
        if let address = url.addressLiteral, !policy.allows(address, port: url.port) {
            throw .invalid(
                field: "url",
                "the address \(url.host) (port \(url.port)) is not allowed for webhooks; the operator can allow it with "
                    + "webhooks.allowedAddresses, private networks also with addressProfile \"internal\"")
        }
        guard policy.mayAllow(port: url.port) else {
            throw .invalid(
                field: "url",
                "port \(url.port) is not allowed for webhooks; \(Self.freePorts) are, and other ports of addresses that the "
                    + "operator names in webhooks.allowedAddresses")
        }
    }

    /// `80, 443 and those from 1024`.
    private static let freePorts =
        AddressPolicy.wellKnownPorts.sorted().map(String.init).joined(separator: ", ") + " and those from 1024"

    private func checkTLS(_ url: OutboundURL) throws(RegistryProblem) {
        guard let tls = settings.tls else { return }
        if url.scheme != "https" { throw .invalid(field: "tls", "is of use with https:// only") }
        if (tls.certificateFile == nil) != (tls.keyFile == nil) {
            throw .invalid(field: "tls", "certificateFile and keyFile belong together")
        }
        let files = [
            ("tls.caFile", tls.caFile), ("tls.certificateFile", tls.certificateFile), ("tls.keyFile", tls.keyFile),
        ]
        for (field, path) in files {
            guard let path, !FileManager.default.isReadableFile(atPath: path) else { continue }
            throw .invalid(field: field, "the daemon cannot read \(path)")
        }
    }

    private mutating func finishFCM() throws(RegistryProblem) {
        guard let serviceAccountFile = settings.serviceAccountFile else {
            throw .invalid(
                field: "fcm.serviceAccountFile", "is missing; format fcm sends with a service account's token")
        }
        if settings.verification.method != .none {
            throw .invalid(field: "verification.method", "is none for format fcm")
        }
        if let topic = settings.topics.first(where: TopicName.operations.contains) {
            throw .invalid(field: "topics", "\(topic) cannot be sent to FCM")
        }
        if settings.headers.contains(where: { $0.name.lowercased() == "authorization" }) {
            throw .invalid(field: "headers[Authorization]", "is set by the daemon for format fcm")
        }
        let account: ServiceAccount
        do {
            account = try ServiceAccount(contentsOf: serviceAccountFile)
        } catch {
            throw .invalid(field: "fcm.serviceAccountFile", "\(error)")
        }
        url = try Self.messagesURL(base: url, account)
    }

    /// `<base>/v1/projects/<project id>/messages:send`; a URL that has a path already stays as it is.
    private static func messagesURL(
        base: OutboundURL?, _ account: ServiceAccount
    ) throws(RegistryProblem) -> OutboundURL {
        if let base, base.path.count > 1 { return base }
        guard let project = account.projectID else {
            throw .invalid(field: "url", "must be complete, because the service account's key names no project_id")
        }
        var text = base?.text ?? "https://\(fcmHost)"
        while text.last == "/" { text.removeLast() }
        do {
            return try OutboundURL("\(text)/v1/projects/\(project)/messages:send")
        } catch {
            throw .invalid(field: "url", "\(error)")
        }
    }
}

extension OutboundURL {
    fileprivate func isSameOrigin(as other: OutboundURL) -> Bool {
        scheme == other.scheme && host == other.host && port == other.port
    }
}
