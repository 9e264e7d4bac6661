import ArgumentParser
import StalecastDaemon

/// The flags of `serve` that decide about its configuration; `check-config` judges them together with the file.
struct ServeOptions: ParsableArguments {
    @Option(name: .long, help: "YAML file to configure from; see samples/stalecast.yaml.", completion: .file())
    var config: String?

    @Option(name: .long, help: "Directory of the store, token and endpoints (default: ./stalecast-data).")
    var data: String?

    @Option(name: .long, help: "HOST:PORT of the public listener (default: 127.0.0.1:8080; port 0 takes a free one).")
    var edge: String?

    @Option(name: .long, help: "HOST:PORT of the private listener (default: 127.0.0.1:8081; port 0 takes a free one).")
    var control: String?

    @Option(
        name: .long, help: "PEM file of the certificate to serve with (Control too where it is not on loopback).",
        completion: .file())
    var tlsCert: String?

    @Option(name: .long, help: "PEM file of that certificate's key.", completion: .file())
    var tlsKey: String?

    @Option(
        name: .long, help: "trace, debug, info, notice, warning, error or critical (default: info).",
        completion: .list(["trace", "debug", "info", "notice", "warning", "error", "critical"]))
    var logLevel: String?

    @Option(
        name: .long, help: "text or json, one object per line (default: text).", completion: .list(["text", "json"]))
    var logFormat: String?

    @Flag(name: .long, help: "Permit listeners outside loopback without TLS: a proxy in front speaks it.")
    var proxied = false

    @Flag(name: .long, help: "Begin without versions where the data directory held a store that is gone.")
    var beginEmpty = false

    @Flag(name: .long, help: .hidden) var allowPublicBind = false
    @Flag(name: .long, help: .hidden) var allowPlaintextBind = false

    func validate() throws {
        for (isGiven, name) in [(allowPublicBind, "public"), (allowPlaintextBind, "plaintext")] where isGiven {
            throw ValidationError(
                "--allow-\(name)-bind is gone: serve with --tls-cert and --tls-key, or say --proxied when a proxy in front "
                    + "speaks TLS")
        }
    }

    var overrides: ConfigurationOverrides {
        ConfigurationOverrides(
            dataDirectory: data, edge: edge, control: control, tlsCertificate: tlsCert, tlsKey: tlsKey,
            logLevel: logLevel, logFormat: logFormat,
            proxied: proxied)
    }
}
