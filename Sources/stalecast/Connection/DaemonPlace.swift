import ArgumentParser
import Foundation

/// Options that say where a daemon is.
struct DaemonPlace: ParsableArguments {
    @OptionGroup var data: DataOptions

    @Option(help: .value("name", "A daemon of `stalecast context list`."), completion: .contexts)
    var context: String?

    @Option(help: .value("url", "Address of Control, for example http://127.0.0.1:8081."))
    var control: String?

    @Option(help: .value("url", "Address of Edge, for example http://127.0.0.1:8080."))
    var edge: String?

    @Option(help: .value("file", "PEM file of authorities (or $STALECAST_CA_FILE)."), completion: .file())
    var caFile: String?
}

/// Address of the daemon, for commands that only ask Edge; Edge takes no control token.
struct EdgeOptions: ParsableArguments {
    @OptionGroup var place: DaemonPlace

    @Option(
        help: .value(
            "file", "File with the API key that Edge asks for where auth.mode is enforce (default: $STALECAST_API_KEY)."
        ), completion: .file())
    var apiKeyFile: String?

    // Scripts may give every command the same options.
    @Option(help: .hidden)
    var tokenFile: String?

    @Option(help: .hidden)
    var user: String?

    @OptionGroup var outputOptions: OutputOptions

    var output: Output { outputOptions.output }

    /// Edge's address, read again on every call, with the key to show there.
    func addressWithKey() throws(CommandFailure) -> ServerAddress {
        var address = try place.edgeAddress()
        guard let apiKeyFile else {
            address.apiKey = ProcessInfo.processInfo.environment["STALECAST_API_KEY"]
            return address
        }
        do {
            address.apiKey = try String(contentsOfFile: apiKeyFile, encoding: .utf8)
                .trimmingCharacters(in: .whitespacesAndNewlines)
        } catch {
            throw CommandFailure(
                .tokenRefused, "the API key cannot be read from \(apiKeyFile) (\(error.reason))",
                advice: "`stalecast keys create --action watch --save FILE` makes one.")
        }
        return address
    }
}

extension DaemonPlace {
    /// Edge's address, read again on every call: after a restart on port 0 it is another one.
    func edgeAddress() throws(CommandFailure) -> ServerAddress {
        try address(.edge, given: edge, \.edge)
    }

    func controlAddress() throws(CommandFailure) -> ServerAddress {
        try address(.control, given: control, \.control)
    }

    var isPlaced: Bool { control != nil || data.path != nil }

    private func address(
        _ field: PlaceField, given: String?, _ member: KeyPath<DataDirectory.Endpoints, String>
    ) throws(CommandFailure) -> ServerAddress {
        let surroundings = try Surroundings.current.get()
        let authorities = caFile ?? surroundings.value(.caFile, isPlaced: isPlaced) ?? authoritiesOfEnvironment
        if let given { return try ServerAddress(given, from: "--\(field.rawValue)", caFile: authorities) }
        let name = surroundings.nameOfContext(isPlaced: isPlaced)
        if data.path == nil, let known = surroundings.value(field, isPlaced: isPlaced) {
            let origin = name.map { "context \($0)" } ?? "$\(field.variable)"
            return try ServerAddress(known, from: origin, caFile: authorities)
        }
        if let name, surroundings.value(.data) == nil {
            throw CommandFailure(
                .unreachable, "the context \(name) has no address of \(field.rawValue.capitalized)",
                advice: "`stalecast context add \(name) --\(field.rawValue) URL` adds it.")
        }
        let endpoints = try data.running().endpoints()
        var origin = data.running().endpointsFile
        if let process = endpoints.process {
            origin += endpoints.isRunning ? ", process \(process)" : ", but its process \(process) has ended"
        }
        return try ServerAddress(endpoints[keyPath: member], from: origin, caFile: authorities)
    }

    /// File of authorities in the variables of curl and OpenSSL.
    private var authoritiesOfEnvironment: String? {
        let environment = ProcessInfo.processInfo.environment
        return ["CURL_CA_BUNDLE", "SSL_CERT_FILE"].lazy.compactMap { environment[$0] }.first { !$0.isEmpty }
    }
}
