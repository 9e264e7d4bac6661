import ArgumentParser
import Foundation
import StalecastWire

/// Where the daemon is and what opens it; shared by all client commands.
struct ConnectionOptions: ParsableArguments {
    @OptionGroup var data: DataOptions

    @Option(help: ArgumentHelp("Address of Control, for example http://127.0.0.1:8081.", valueName: "url"))
    var control: String?

    @Option(help: ArgumentHelp("Address of Edge, for example http://127.0.0.1:8080.", valueName: "url"))
    var edge: String?

    @Option(help: ArgumentHelp("File with the control token (default: control.token in --data).", valueName: "file"))
    var tokenFile: String?

    /// A client of Control with the token read.
    /// - Throws: ``CommandFailure`` `unreachable` without an address, `tokenRefused` without a token.
    func controlClient() throws(CommandFailure) -> ControlClient {
        let address = try address(flag: "--control", given: control, \.control)
        return ControlClient(address: address, token: try token())
    }

    /// Edge's address, read anew on every call: after a restart on port 0 it is another one.
    func edgeAddress() throws(CommandFailure) -> ServerAddress {
        try address(flag: "--edge", given: edge, \.edge)
    }

    private func address(
        flag: String, given: String?, _ member: KeyPath<DataDirectory.Endpoints, String>
    ) throws(CommandFailure) -> ServerAddress {
        if let given { return try ServerAddress(given, from: flag) }
        let endpoints = try data.directory.endpoints()
        var origin = data.directory.endpointsFile
        if let process = endpoints.process {
            origin += endpoints.isRunning ? ", process \(process)" : ", but its process \(process) has ended"
        }
        return try ServerAddress(endpoints[keyPath: member], from: origin)
    }

    private func token() throws(CommandFailure) -> ControlToken {
        try ControlToken(readFrom: tokenFile ?? data.directory.tokenFile)
    }
}

/// A listener's base URL and how we came to it, for the sentence when nobody answers there.
struct ServerAddress: Sendable {
    /// Scheme, host and port, without a final slash.
    let url: String
    let origin: String

    /// - Parameter text: `http://host:port`, or `host:port`, which means http.
    init(_ text: String, from origin: String) throws(CommandFailure) {
        var url = text.contains("://") ? text : "http://" + text
        while url.hasSuffix("/") { url.removeLast() }
        guard let parts = URLComponents(string: url), ["http", "https"].contains(parts.scheme ?? ""),
            !(parts.host ?? "").isEmpty, parts.query == nil, parts.fragment == nil
        else {
            throw CommandFailure(
                .usage, "\(origin): \"\(text)\" is not an address such as http://127.0.0.1:8081")
        }
        self.url = url
        self.origin = origin
    }
}

/// The bearer token of Control and the file it came from.
struct ControlToken: Sendable {
    let secret: String
    let file: String

    /// - Throws: ``CommandFailure`` `tokenRefused` when the file cannot be read or holds no token.
    init(readFrom file: String) throws(CommandFailure) {
        let advice =
            "The daemon writes its token there at its first start (mode 0600): run as the user that runs it, "
            + "or name a copy with --token-file FILE."
        let bytes: Data
        do {
            bytes = try InputFile.contents(of: file)
        } catch {
            throw CommandFailure(
                .tokenRefused, "the control token cannot be read from \(file) (\(error.reason))", advice: advice)
        }
        let text = String(decoding: bytes, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
        guard !text.isEmpty, text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw CommandFailure(.tokenRefused, "\(file) holds no control token", advice: advice)
        }
        self.secret = text
        self.file = file
    }
}

/// The scope a command is about.
struct ScopeOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Project, by id or number.", valueName: "id"))
    var project = "demo"

    @Option(help: ArgumentHelp("Namespace: firebase (client) or firebase-server.", valueName: "name"))
    var namespace = "firebase"

    /// The scope, with both names checked.
    func scope() throws(CommandFailure) -> Scope {
        do {
            return Scope(project: try ProjectID(project), namespace: try Namespace(namespace))
        } catch {
            throw CommandFailure(.usage, error.description)
        }
    }
}
