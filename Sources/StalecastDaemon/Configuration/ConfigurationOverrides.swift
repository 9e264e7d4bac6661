/// What the command line of `serve` sets; it wins over file and environment. Nil and false leave a value as it is.
package struct ConfigurationOverrides: Sendable, Equatable {
    /// `--data`.
    package var dataDirectory: String?
    /// `--edge`, as `HOST:PORT`.
    package var edge: String?
    /// `--control`, as `HOST:PORT`.
    package var control: String?
    /// `--log-level`.
    package var logLevel: String?
    /// `--log-format`.
    package var logFormat: String?
    /// `--allow-public-bind`.
    package var allowPublicBind: Bool
    /// `--allow-plaintext-bind`.
    package var allowPlaintextBind: Bool

    package init(
        dataDirectory: String? = nil, edge: String? = nil, control: String? = nil, logLevel: String? = nil,
        logFormat: String? = nil, allowPublicBind: Bool = false, allowPlaintextBind: Bool = false
    ) {
        self.dataDirectory = dataDirectory
        self.edge = edge
        self.control = control
        self.logLevel = logLevel
        self.logFormat = logFormat
        self.allowPublicBind = allowPublicBind
        self.allowPlaintextBind = allowPlaintextBind
    }

    /// The text for the option with this flag; nil if it was not given.
    func text(for flag: String) -> String? {
        switch flag {
        case "--data": dataDirectory
        case "--edge": edge
        case "--control": control
        case "--log-level": logLevel
        case "--log-format": logFormat
        case "--allow-public-bind": allowPublicBind ? "true" : nil
        case "--allow-plaintext-bind": allowPlaintextBind ? "true" : nil
        default: nil
        }
    }
}
