/// Settings of `serve`'s command line; they win over file and environment.
package struct ConfigurationOverrides: Sendable, Equatable {
    /// Texts of options by their flags; those that were not given are missing.
    let texts: [String: String]

    /// - Parameters: nil and false leave a value as it is. Addresses are `HOST:PORT`; `proxied` is of both listeners.
    package init(
        dataDirectory: String? = nil, edge: String? = nil, control: String? = nil, tlsCertificate: String? = nil,
        tlsKey: String? = nil, logLevel: String? = nil, logFormat: String? = nil, proxied: Bool = false
    ) {
        let given = [
            "--data": dataDirectory, "--edge": edge, "--control": control, "--tls-cert": tlsCertificate,
            "--tls-key": tlsKey, "--log-level": logLevel, "--log-format": logFormat,
            "--proxied": proxied ? "true" : nil,
        ]
        texts = given.compactMapValues(\.self)
    }
}
