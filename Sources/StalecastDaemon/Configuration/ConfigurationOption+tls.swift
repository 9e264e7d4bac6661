extension ConfigurationOption {
    static let edgeTLS = tls("edge.tls", of: .edge, flags: ("--tls-cert", "--tls-key"))

    static let controlTLS = tls("control.tls", of: .control, flags: (nil, nil))

    private static func tls(
        _ section: String, of listener: Configuration.Listener, flags: (certificate: String?, key: String?)
    ) -> [ConfigurationOption] {
        [
            ConfigurationOption(
                "\(section).certificate", \.[tls: listener].certificate, .optionalFile, .restart,
                flag: flags.certificate,
                "PEM file of the server's certificate and its issuers after it; without it the listener speaks no TLS."),
            ConfigurationOption(
                "\(section).key", \.[tls: listener].key, .optionalFile, .restart, flag: flags.key,
                "PEM file of its private key, not encrypted."),
            ConfigurationOption(
                entries: "\(section).others", \.[tls: listener].others,
                [
                    .required("certificate", "file", "PEM file, as above."),
                    .required("key", "file", "PEM file of its key."),
                ],
                .restart, "Further certificates, for clients that ask for one of their DNS names (SNI).",
                spell: { "{certificate: \($0.certificate), key: \($0.key)}" }, read: { $1.certificatePair($0) }),
            ConfigurationOption(
                "\(section).clientAuthorities", \.[tls: listener].clientAuthorities, .optionalFile, .restart,
                "PEM file of the authorities whose clients are let in (mTLS); without it no client is asked."),
            ConfigurationOption(
                "\(section).requireClientCertificate", \.[tls: listener].requireClientCertificate, .flag, .restart,
                "With clientAuthorities: false lets clients without a certificate in, but none with a wrong one."),
        ]
    }
}

extension Configuration {
    fileprivate enum Listener { case edge, control }

    fileprivate subscript(tls listener: Listener) -> TLS {
        get { listener == .edge ? edge.tls : control.tls }
        set { listener == .edge ? (edge.tls = newValue) : (control.tls = newValue) }
    }
}

extension ConfigurationReading {
    fileprivate mutating func certificatePair(_ entry: Entry) -> Configuration.TLS.Pair? {
        let certificate = value("certificate", of: entry, parse: checkedPath)
        let key = value("key", of: entry, parse: checkedPath)
        guard let certificate, let key else { return nil }
        return Configuration.TLS.Pair(certificate: certificate, key: key)
    }
}
