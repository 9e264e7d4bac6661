import StalecastCluster
import StalecastControl
import StalecastEtcd
import StalecastWire

extension ConfigurationOption {
    static let etcd = [
        ConfigurationOption(
            list: "store.etcd.endpoints", \.store.etcd.endpoints, .etcdEndpoint, .restart,
            "Client URLs of etcd's members, such as http://10.0.0.11:2379, etcd 3.4 or later; none: this daemon is one by "
                + "itself."),
        ConfigurationOption(
            "store.etcd.user", \.store.etcd.user, .userName, .restart,
            "The user of etcd, where it asks for passwords; with passwordFile."),
        ConfigurationOption(
            "store.etcd.passwordFile", \.store.etcd.passwordFile, .optionalFile, .restart,
            "File with the user's password; read anew at each sign-in."),
        ConfigurationOption(
            "store.etcd.caFile", \.store.etcd.caFile, .optionalFile, .restart,
            "PEM file of the authorities of etcd's certificates; without it the system's."),
        ConfigurationOption(
            "store.etcd.certificate", \.store.etcd.certificate, .optionalFile, .restart,
            "PEM file of the certificate shown to etcd (mTLS), with key."),
        ConfigurationOption(
            "store.etcd.key", \.store.etcd.key, .optionalFile, .restart, "PEM file of its private key, not encrypted."),
    ]

    static let cluster = [
        ConfigurationOption(
            "cluster.name", \.cluster.name, .clusterName, .restart,
            "Names the cluster's keys in etcd, /stalecast/<name>; equal on all nodes."),
        ConfigurationOption(
            "cluster.node", \.cluster.node, .nodeName, .restart, "This node's name; no other of the cluster has it."),
        ConfigurationOption(
            "cluster.advertise", \.cluster.advertise, .optionalURL, .restart,
            "Control's URL as others reach it; shown by `stalecast cluster status`, and named by an edge that refuses a "
                + "change."),
        ConfigurationOption(
            "cluster.role", \.cluster.role, .choice, .restart,
            "core: publishes, delivers to webhooks, watches sources; edge only follows the log, for clients of another region, "
                + "and needs no right to write in etcd but to its own records."),
        ConfigurationOption(
            "cluster.fetch", \.cluster.fetch, .choice, .restart,
            "verified: a fetch whose client names no cursor asks etcd first whether the copy here is the newest, many "
                + "fetches at a time; local answers from the copy, as an edge does unless this is set."),
        ConfigurationOption(
            "cluster.maxUnverified", \.cluster.maxUnverified, .duration(.zero...(.seconds(86_400))), .restart,
            "How long fetches, and Control's reads of the newest template, are answered and marked while etcd cannot be "
                + "asked; then 503. 0s: for ever."),
        ConfigurationOption(
            "cluster.readiness", \.cluster.readiness, .choice, .restart,
            "/readyz while etcd cannot be reached: degraded stays ready, or balancers would lose all nodes at once; strict "
                + "is not."),
    ]
}

extension OptionKind<EtcdEndpoint> {
    static let etcdEndpoint = OptionKind(form: "http or https URL, a port (2379) and no path") {
        text throws(InvalidValue) in
        guard let endpoint = EtcdEndpoint(text) else {
            let hint = text.contains("[") ? "; in brackets stands an IPv6 address, as in http://[fd00::11]:2379" : ""
            throw InvalidValue("\"\(text.prefix(200))\" is no URL such as http://10.0.0.11:2379" + hint)
        }
        _ = try ListenAddress(parsing: HostPort.text(endpoint.host, endpoint.port))
        return endpoint
    } spell: {
        "\"\($0)\""
    }
}

extension OptionKind<String?> {
    /// A user of etcd; the empty text is none.
    fileprivate static let userName = OptionKind(form: "text of up to 128 bytes") { text throws(InvalidValue) in
        guard text.utf8.count <= 128, text.utf8.allSatisfy({ $0 >= 0x20 }) else {
            throw InvalidValue("a user's name has up to 128 bytes, and no control characters")
        }
        return text
    }
}

extension OptionKind<String> {
    fileprivate static let clusterName = OptionKind(form: "1 to 63 of a-z, 0-9 and -") { text throws(InvalidValue) in
        guard text.isWord(1...63, and: "-"), text == text.lowercased() else {
            throw InvalidValue("\"\(text.prefix(80))\" is no cluster's name; use 1 to 63 of a-z, 0-9 and -")
        }
        return text
    }

    /// The empty text is this host's.
    fileprivate static let nodeName = OptionKind(
        form: "1 to 63 of letters, digits, hyphens, dots and _ (\"\": this host's name)"
    ) { text throws(InvalidValue) in
        guard text.isWord(0...63, and: "-._") else {
            throw InvalidValue(
                "\"\(text.prefix(80))\" is no node's name; use 1 to 63 letters, digits, hyphens, dots and _")
        }
        return text
    } spell: {
        $0.isEmpty ? "\"\"" : $0
    }
}

extension ConfigurationReading {
    /// Checks that keys of etcd and of a cluster stand together.
    mutating func checkCluster() {
        let etcd = configuration.store.etcd
        guard sound("store.etcd.endpoints") else { return }
        guard !etcd.endpoints.isEmpty else { return checkNoCluster() }
        let secure = etcd.endpoints.count(where: \.isTLS)
        if secure != 0, secure != etcd.endpoints.count {
            note("store.etcd.endpoints: some are http, some https; write all the same", at: "store.etcd.endpoints")
        }
        checkPair("store.etcd.user", etcd.user != nil, "store.etcd.passwordFile", etcd.passwordFile != nil)
        checkPair("store.etcd.certificate", etcd.certificate != nil, "store.etcd.key", etcd.key != nil)
        let files = [("caFile", etcd.caFile), ("certificate", etcd.certificate), ("key", etcd.key)]
        if secure == 0, let (name, _) = files.first(where: { $0.1 != nil }) {
            note("store.etcd.\(name) means nothing to endpoints of http; write https", at: "store.etcd.\(name)")
        }
        checkTemplateSize()
        if configuration.cluster.role == .edge { checkEdge() }
    }

    /// An edge publishes nothing, so nothing that publishes or is told of publishes may be its own.
    private mutating func checkEdge() {
        if origins["cluster.fetch"] == nil { configuration.cluster.fetch = .local }
        if configuration.sources.scopes.contains(where: \.isFed) {
            note("sources.scopes: an edge watches no source; leave them to core nodes", at: "sources.scopes")
        }
        if !configuration.webhooks.receivers.isEmpty {
            note("webhooks.receivers: an edge calls no webhook; leave them to core nodes", at: "webhooks.receivers")
        }
    }

    /// A larger one would be taken from its publisher, and refused by the log.
    private mutating func checkTemplateSize() {
        let (path, bytes) = ("control.maxTemplateBytes", configuration.control.settings.maxTemplateBytes)
        guard sound(path), bytes > LogEntry.maxContent else { return }
        let most = ByteCount.spelled(LogEntry.maxContent)
        note("\(path): a cluster takes templates of \(most) at most; write \(path): \(most), or less", at: path)
    }

    /// Refuses a cluster without etcd: a node by itself would share its publishes with none.
    private mutating func checkNoCluster() {
        let paths = (ConfigurationOption.etcd + ConfigurationOption.cluster).filter {
            !$0.isEqual(configuration, Configuration())
        }.map(\.path)
        guard let path = paths.first else { return }
        note(
            "\(path) means nothing without store.etcd.endpoints; name etcd's members there (store: {etcd: {endpoints: "
                + "[http://10.0.0.11:2379]}}), or remove it", at: path)
    }
}
