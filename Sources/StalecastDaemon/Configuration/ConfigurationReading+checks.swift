import StalecastControl
import StalecastEdge
import StalecastHTTP
import StalecastWire

extension ConfigurationReading {
    /// The checks that take more than one value. A check whose values were refused is left out: it would blame a default.
    mutating func checkAcrossOptions() {
        checkProjects()
        checkPorts()
        checkBinds()
        checkTLS("edge", configuration.edge.tls)
        checkTLS("control", configuration.control.tls)
        checkProxies("edge", configuration.edge.settings.proxies)
        checkProxies("control", configuration.control.settings.proxies)
        checkCertificates()
        checkPair(
            "auth.hook.url", configuration.auth.hook.url != nil, "auth.hook.headers",
            !configuration.auth.hook.headers.isEmpty)
        checkOrigins()
        checkPollWaits()
        checkTopicScopes()
        checkReceivers()
        checkReleases()
        checkCluster()
    }

    private mutating func checkPorts() {
        let edge = configuration.edge.listen
        let control = configuration.control.listen
        guard sound("edge.listen", "control.listen"), edge.port == control.port, edge.port != 0 else { return }
        let sentence = "edge.listen (\(edge)) and control.listen (\(control)) have the same port; give each its own"
        note(sentence, at: latest("control.listen", "edge.listen"))
    }

    private mutating func checkBinds() {
        let (edge, control) = (configuration.edge, configuration.control)
        checkBind(
            "edge", edge.listen, edge.tls, isProxied: edge.proxied, "what clients are told would cross the network")
        checkBind(
            "control", control.listen, configuration.controlTLS, isProxied: control.proxied,
            "the token would cross the network")
    }

    /// Outside loopback a listener speaks TLS, or says who does.
    private mutating func checkBind(
        _ listener: String, _ address: ListenAddress, _ tls: Configuration.TLS, isProxied: Bool, _ danger: String
    ) {
        let path = "\(listener).listen"
        guard sound(path, "\(listener).proxied", "\(listener).tls.certificate", "edge.tls.certificate") else { return }
        guard !address.isLoopback, !isProxied, tls.certificate == nil else { return }
        note(
            "\(path): \(address) is not a loopback address, and \(danger) unencrypted. Write "
                + "\(listener): {tls: {certificate: FILE, key: FILE}} (serve --tls-cert FILE --tls-key FILE), or, where "
                + "a proxy in front speaks TLS, \(listener): {proxied: true} (serve --proxied)", at: path)
    }

    /// A certificate needs its key, and the other TLS keys need a certificate.
    private mutating func checkTLS(_ listener: String, _ tls: Configuration.TLS) {
        let path = "\(listener).tls"
        guard sound("\(path).certificate", "\(path).key") else { return }
        switch (tls.certificate, tls.key) {
        case (_?, nil): note("\(path).certificate has no key; name its file in \(path).key", at: "\(path).certificate")
        case (nil, _?): note("\(path).key has no certificate; name it in \(path).certificate", at: "\(path).key")
        case (nil, nil) where tls.clientAuthorities != nil || !tls.others.isEmpty:
            let given = tls.others.isEmpty ? "clientAuthorities" : "others"
            note("\(path).\(given) means nothing without \(path).certificate", at: "\(path).\(given)")
        default: break
        }
    }

    /// Refuses a listener that requires PROXY headers and trusts no proxy: no client could connect.
    private mutating func checkProxies(_ listener: String, _ proxies: TrustedProxies) {
        let path = "\(listener).proxyProtocol"
        guard sound(path, "\(listener).trustedProxies"), proxies.speakPROXY, proxies.networks.isEmpty else { return }
        note(
            "\(path) admits no client without \(listener).trustedProxies; name the addresses of the proxies there",
            at: path)
    }

    /// Rules about certificates that are not asked for.
    private mutating func checkCertificates() {
        let paths = ["edge.tls.clientAuthorities", "control.tls.clientAuthorities"]
        guard sound("auth.certificates", paths[0], paths[1]), !configuration.auth.certificates.isEmpty,
            configuration.edge.tls.clientAuthorities == nil, configuration.control.tls.clientAuthorities == nil
        else { return }
        note(
            "auth.certificates means nothing without edge.tls.clientAuthorities or control.tls.clientAuthorities",
            at: "auth.certificates")
    }

    /// Two options of which neither means anything without the other.
    mutating func checkPair(_ path: String, _ isGiven: Bool, _ otherPath: String, _ isOtherGiven: Bool) {
        guard sound(path, otherPath), isGiven != isOtherGiven else { return }
        let (given, missing) = isGiven ? (path, otherPath) : (otherPath, path)
        note("\(given) means nothing without \(missing)", at: given)
    }

    private mutating func checkOrigins() {
        let origins = configuration.edge.settings.allowedOrigins
        let path = "edge.allowedOrigins"
        guard sound(path), origins.contains("*"), origins.count > 1 else { return }
        note("\(path): * is every origin and stands alone; remove it or the others", at: path)
    }

    private mutating func checkPollWaits() {
        let times = configuration.edge.settings.times
        let (wait, longest) = (times.pollDefaultWait, times.pollMaxWait)
        guard sound("edge.poll.defaultWait", "edge.poll.maxWait"), wait > longest else { return }
        let sentence = "(\(wait.spelled)) is longer than edge.poll.maxWait (\(longest.spelled))"
        note("edge.poll.defaultWait \(sentence)", at: latest("edge.poll.defaultWait", "edge.poll.maxWait"))
    }

    private mutating func checkTopicScopes() {
        guard sound("projects") else { return }
        let known = configuration.scopes
        let names = known.map(\.description).joined(separator: ", ")
        for (path, scope) in mentionedScopes where !known.contains(scope) {
            note("\(path): there is no scope \(scope); the scopes are \(names)", at: path)
        }
    }

    func sound(_ paths: String...) -> Bool { refused.isDisjoint(with: paths) }

    /// The first of `paths` that was set at all; the first if none was.
    private func latest(_ paths: String...) -> String { paths.first { origins[$0] != nil } ?? paths[0] }
}
