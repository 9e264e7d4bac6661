import ArgumentParser
import Foundation
import StalecastClient
import StalecastOutbound
import StalecastWire

/// Address and credentials of the daemon, and forms of its answers; shared by all client commands.
struct ConnectionOptions: ParsableArguments {
    @OptionGroup var place: DaemonPlace

    @Option(help: .value("file", "File with the control token (or $STALECAST_TOKEN)."), completion: .file())
    var tokenFile: String?

    @Option(help: .value("name", "Who does this, for the history (or $STALECAST_USER)."))
    var user: String?

    @OptionGroup var outputOptions: OutputOptions

    var output: Output { outputOptions.output }
    var data: DataOptions { place.data }

    /// A client of Control with the token read.
    /// - Throws: ``CommandFailure`` `unreachable` without an address, `tokenRefused` without a token.
    func controlClient() throws(CommandFailure) -> ControlClient {
        let address = try place.controlAddress()
        // A problem that keeps Edge's address from being known is told where it is needed.
        if let caFile = place.caFile, !address.url.hasPrefix("https:"),
            (try? place.edgeAddress())?.url.hasPrefix("https:") != true
        {
            throw CommandFailure(
                .usage, "--ca-file \(caFile) is for https, and Control is at \(address.url)",
                advice: "The authority of a webhook's receiver is named with --receiver-ca-file.")
        }
        return ControlClient(address: address, token: try token(), user: user ?? Self.defaultUser)
    }

    /// Account of the person at the keyboard, also behind sudo; empty where a header cannot carry its name.
    private static var defaultUser: String {
        let environment = ProcessInfo.processInfo.environment
        if let named = environment["STALECAST_USER"] { return named }
        let account = environment["SUDO_USER"] ?? NSUserName()
        return account.utf8.allSatisfy { (0x21...0x7E).contains($0) } ? account : ""
    }

    /// `at http://127.0.0.1:8081 (context prod)`, for questions.
    func place(of client: ControlClient) -> String {
        let name = (try? Surroundings.current.get())?.nameOfContext(isPlaced: place.isPlaced)
        return "at \(client.address.url)" + (name.map { " (context \($0))" } ?? "")
    }

    /// Whether a daemon is named, and not only its data directory.
    var namesDaemon: Bool { place.control != nil || place.context != nil }

    /// Whether a daemon is named that may run elsewhere, by a flag, a variable or the context in use, and no data directory.
    var isElsewhere: Bool {
        if place.control != nil { return true }
        // A broken contexts file is reported when the address is looked up.
        guard data.path == nil, let surroundings = try? Surroundings.current.get() else { return false }
        return surroundings.value(.data) == nil && surroundings.value(.control) != nil
    }

    private func token() throws(CommandFailure) -> ControlToken {
        if let tokenFile { return try ControlToken(readFrom: tokenFile) }
        let surroundings = try Surroundings.current.get()
        if let secret = surroundings.token {
            return try ControlToken(
                checking: secret, from: "$STALECAST_TOKEN",
                advice:
                    "A token or key is one word of visible ASCII. Unset the variable to take control.token of the data "
                    + "directory, or name a file with --token-file FILE.")
        }
        let isPlaced = place.isPlaced
        return try ControlToken(
            readFrom: surroundings.value(.tokenFile, isPlaced: isPlaced)
                ?? surroundings.tokenFileOfDaemon(isPlaced: isPlaced)
                ?? data.running(isPlaced: isPlaced).tokenFile)
    }

    /// Whether the daemon is ready. Needs no token, and shows none: also a certificate that names other hosts will do.
    ///
    /// - Throws: ``CommandFailure`` `unreachable` when no server answers.
    func isReady() async throws(CommandFailure) -> Bool {
        let address = try place.controlAddress()
        var request = try address.request("/readyz")
        request.tls = OutboundTLS(trustsAnyServer: true)
        do {
            return try await HTTPAnswer.of(request, patience: ControlClient.patience).status == 200
        } catch {
            throw CommandFailure(noAnswerFrom: address, error)
        }
    }
}

/// A listener's base URL and how we came to it, for the sentence when no server answers there.
struct ServerAddress: Sendable {
    /// Scheme, host and port, without a final slash.
    let url: String
    let origin: String
    /// Trusted instead of the system's authorities; nil for those.
    let caFile: String?
    /// Shown with every ``request(_:_:)``; nil or empty shows none.
    var apiKey: String?

    /// - Parameter text: `http://host:port`, or `host:port`, which means http; an IPv6 address in brackets.
    init(_ text: String, from origin: String, caFile: String? = nil) throws(CommandFailure) {
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
        self.caFile = parts.scheme == "https" ? caFile : nil
    }

    /// A `GET` of a path below this address.
    /// - Parameter path: begins with `/`; made of names that need no escaping.
    func request(_ path: String, _ query: RequestQuery = [:]) throws(CommandFailure) -> OutboundRequest {
        do {
            let url = try OutboundURL(url + path + query.text, maxBytes: Self.maxURLBytes)
            var request = OutboundRequest(url: url, policy: Self.anywhere, tls: caFile.map { OutboundTLS(caFile: $0) })
            if let apiKey, !apiKey.isEmpty { request.headers = [try OutboundHeader("X-API-Key", apiKey)] }
            return request
        } catch {
            throw CommandFailure(.usage, "the address \(url) (from \(origin)) \(error)")
        }
    }

    /// Request for a connection of the Swift client; see ``request(_:_:)``.
    func streamRequest(_ path: String, _ query: RequestQuery) throws(CommandFailure) -> StreamRequest {
        guard let url = URL(string: url + path + query.text) else {
            throw CommandFailure(.usage, "the address \(url) (from \(origin)) is not one of the web's")
        }
        var request = StreamRequest(url: url)
        request.authorityFile = caFile
        if let apiKey, !apiKey.isEmpty { request.set("X-API-Key", apiKey) }
        return request
    }

    /// 64 topics of 255 characters do not fit into a request's head anyway.
    private static let maxURLBytes = 16 << 10

    /// Policy of addresses: the user of the command may name any; the guard is for URLs that strangers register.
    static let anywhere = AddressPolicy(
        profile: .internal,
        allow: ["0.0.0.0/0", "::/0"].map { range in
            do { return try CIDR(range) } catch { preconditionFailure("\(error)") }
        })
}

/// The bearer token of Control and the file it came from.
struct ControlToken: Sendable {
    let secret: String
    let file: String

    /// - Throws: ``CommandFailure`` `tokenRefused` when the file cannot be read or holds no token.
    init(readFrom file: String) throws(CommandFailure) {
        let advice =
            file.hasSuffix("/control.token")
            ? "The daemon writes its token there at its first start (mode 0600): run as the user that runs it, "
                + "or name a copy with --token-file FILE."
            : "Name a file that holds a token or key: --token-file FILE, $STALECAST_TOKEN_FILE, or the context's."
        let bytes: Data
        do {
            bytes = try InputFile.contents(of: file)
        } catch {
            throw CommandFailure(
                .tokenRefused, "the control token cannot be read from \(file) (\(error.reason))", advice: advice)
        }
        try self.init(checking: String(decoding: bytes, as: UTF8.self), from: file, advice: advice)
    }

    init(checking text: String, from origin: String, advice: String) throws(CommandFailure) {
        secret = text.trimmingCharacters(in: .whitespacesAndNewlines)
        file = origin
        guard !secret.isEmpty, secret.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw CommandFailure(.tokenRefused, "\(file) holds no control token", advice: advice)
        }
    }
}

struct ProjectOptions: ParsableArguments {
    @Option(help: .value("id", "Project, by id or number (default: demo)."), completion: .projects)
    var project: String?

    func id() throws(CommandFailure) -> ProjectID { try Self.id(project) }

    /// - Parameter given: what the command line says; nil takes the default.
    static func id(_ given: String?) throws(CommandFailure) -> ProjectID {
        let surroundings = try Surroundings.current.get()
        return try checked(try ProjectID(given ?? surroundings.value(.project) ?? "demo"))
    }
}

struct ScopeOptions: ParsableArguments {
    @OptionGroup var project: ProjectOptions

    @Option(help: .value("name", "Namespace (default: firebase)."), completion: .namespaces)
    var namespace: String?

    var isNamed: Bool { namespace != nil || project.project != nil }

    func scope() throws(CommandFailure) -> Scope {
        let surroundings = try Surroundings.current.get()
        let name = namespace ?? surroundings.value(.namespace) ?? "firebase"
        return Scope(project: try project.id(), namespace: try checked(try Namespace(name)))
    }
}

/// Options or a command that asks a daemon's Control and shows results.
protocol ControlOptions {
    var connection: ConnectionOptions { get }
}

extension ControlOptions {
    var output: Output { connection.output }

    func client() throws(CommandFailure) -> ControlClient { try connection.controlClient() }
}

/// A scope on Control.
struct ScopedOptions: ParsableArguments, ControlOptions {
    @OptionGroup var scopeOptions: ScopeOptions
    @OptionGroup var connection: ConnectionOptions

    func scope() throws(CommandFailure) -> Scope { try scopeOptions.scope() }

    func api() throws(CommandFailure) -> TemplateAPI { TemplateAPI(client: try client(), scope: try scope()) }
}

/// Options or a command about a scope on Control, among others.
protocol ScopedControlOptions: ControlOptions {
    var scoped: ScopedOptions { get }
}

extension ScopedControlOptions {
    var connection: ConnectionOptions { scoped.connection }

    func api() throws(CommandFailure) -> TemplateAPI { try scoped.api() }
}

extension Scope {
    /// The topic it is announced on unless the configuration binds others.
    var announcedTopic: TopicName { namespace == .firebaseServer ? .pushRCServer : .pushRC }
}

extension OutboundHeader {
    /// A header whose value came from the command line.
    static func given(_ name: String, _ value: String) throws(CommandFailure) -> OutboundHeader {
        do {
            return try OutboundHeader(name, value)
        } catch {
            throw CommandFailure(.usage, "\(error)")
        }
    }
}
