/// Settings of `serve`'s command line; they win over file and environment. Nil and false leave a value as it is.
package struct ConfigurationOverrides: Sendable, Equatable {
    /// `--data`.
    package var dataDirectory: String?
    /// `--edge`, as `HOST:PORT`.
    package var edge: String?
    /// `--control`, as `HOST:PORT`.
    package var control: String?
    /// `--tls-cert`.
    package var tlsCertificate: String?
    /// `--tls-key`.
    package var tlsKey: String?
    /// `--log-level`.
    package var logLevel: String?
    /// `--log-format`.
    package var logFormat: String?
    /// `--proxied`, of both listeners.
    package var proxied: Bool

    package init(
        dataDirectory: String? = nil, edge: String? = nil, control: String? = nil,
        tlsCertificate: String? = nil, tlsKey: String? = nil, logLevel: String? = nil,
        logFormat: String? = nil, proxied: Bool = false
    ) {
        (self.dataDirectory, self.edge, self.control) = (dataDirectory, edge, control)
        (self.tlsCertificate, self.tlsKey, self.logLevel) = (tlsCertificate, tlsKey, logLevel)
        (self.logFormat, self.proxied) = (logFormat, proxied)
    }

    /// The text for the option with this flag; nil if it was not given.
    func text(for flag: String) -> String? {
        switch flag {
        case "--data": dataDirectory
        case "--edge": edge
        case "--control": control
        case "--tls-cert": tlsCertificate
        case "--tls-key": tlsKey
        case "--log-level": logLevel
        case "--log-format": logFormat
        case "--proxied": proxied ? "true" : nil
        default: nil
        }
    }
}
