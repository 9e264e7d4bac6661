import Yams

extension ConfigurationOption {
    /// The rows of `edge.tls`.
    static let edgeTLS = tls(
        "edge.tls", \.edge.tls.certificate, \.edge.tls.key, \.edge.tls.others, \.edge.tls.clientAuthorities,
        \.edge.tls.requireClientCertificate, flags: ("--tls-cert", "--tls-key")
    ) { $1.configuration.edge.tls.others = $1.certificatePairs($0, at: "edge.tls.others") }

    /// The rows of `control.tls`.
    static let controlTLS = tls(
        "control.tls", \.control.tls.certificate, \.control.tls.key, \.control.tls.others,
        \.control.tls.clientAuthorities, \.control.tls.requireClientCertificate, flags: (nil, nil)
    ) { $1.configuration.control.tls.others = $1.certificatePairs($0, at: "control.tls.others") }

    private static func tls(
        _ section: String, _ certificate: OptionKey<String?>, _ key: OptionKey<String?>,
        _ others: OptionKey<[Configuration.TLS.Pair]>, _ authorities: OptionKey<String?>, _ requires: OptionKey<Bool>,
        flags: (certificate: String?, key: String?),
        read: @escaping @Sendable (Node, inout ConfigurationReading) -> Void
    ) -> [ConfigurationOption] {
        [
            ConfigurationOption(
                "\(section).certificate", certificate, .optionalFile, .restart, flag: flags.certificate,
                "PEM file of the server's certificate and its issuers after it; without it the listener speaks no TLS."),
            ConfigurationOption(
                "\(section).key", key, .optionalFile, .restart, flag: flags.key,
                "PEM file of its private key, not encrypted."),
            ConfigurationOption(
                entries: "\(section).others", others,
                [
                    EntryField("certificate", "file", "PEM file, as above."),
                    EntryField("key", "file", "PEM file of its key."),
                ],
                .restart, "Further certificates, for clients that ask for one of their DNS names (SNI).",
                spell: { "{certificate: \($0.certificate), key: \($0.key)}" }, read: read),
            ConfigurationOption(
                "\(section).clientAuthorities", authorities, .optionalFile, .restart,
                "PEM file of the authorities whose clients are let in (mTLS); without it no client is asked."),
            ConfigurationOption(
                "\(section).requireClientCertificate", requires, .flag, .restart,
                "With clientAuthorities: false lets clients without a certificate in, but none with a wrong one."),
        ]
    }
}

extension ConfigurationReading {
    /// The entries of a list of certificates; those with problems are noted and left out.
    fileprivate mutating func certificatePairs(_ node: Node, at path: String) -> [Configuration.TLS.Pair] {
        entries(of: node, at: path).compactMap { path, entry in
            guard let entry = self.entry(entry, at: path, required: ["certificate", "key"]) else { return nil }
            let certificate = value("certificate", of: entry, parse: checkedPath)
            let key = value("key", of: entry, parse: checkedPath)
            guard let certificate, let key else { return nil }
            return Configuration.TLS.Pair(certificate: certificate, key: key)
        }
    }
}
