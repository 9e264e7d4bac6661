import ArgumentParser
import Foundation
import StalecastOutbound
import StalecastWire

/// Where the daemon is and what opens it; shared by all client commands.
struct ConnectionOptions: ParsableArguments {
    @OptionGroup var data: DataOptions

    @Option(help: ArgumentHelp("Address of Control, for example http://127.0.0.1:8081.", valueName: "url"))
    var control: String?

    @Option(help: ArgumentHelp("Address of Edge, for example http://127.0.0.1:8080.", valueName: "url"))
    var edge: String?

    @Option(
        help: ArgumentHelp("File with the control token (default: control.token in --data).", valueName: "file"),
        completion: .file())
    var tokenFile: String?

    @Option(
        help: ArgumentHelp(
            "Who does this, for the history and the daemon's log (default: $STALECAST_USER).", valueName: "name"))
    var user: String?

    @Option(
        help: ArgumentHelp(
            "PEM file of the authorities trusted for https (default: $CURL_CA_BUNDLE, $SSL_CERT_FILE, else the system's).",
            valueName: "file"), completion: .file())
    var caFile: String?

    /// A client of Control with the token read.
    /// - Throws: ``CommandFailure`` `unreachable` without an address, `tokenRefused` without a token.
    func controlClient() throws(CommandFailure) -> ControlClient {
        let address = try address(flag: "--control", given: control, \.control)
        if let caFile, !address.url.hasPrefix("https:") {
            throw CommandFailure(
                .usage, "--ca-file \(caFile) is for https, and Control is at \(address.url)",
                advice: "The authority of a webhook's receiver is named with --receiver-ca-file.")
        }
        return ControlClient(
            address: address, token: try token(),
            user: user ?? ProcessInfo.processInfo.environment["STALECAST_USER"] ?? "")
    }

    /// Edge's address, read anew on every call: after a restart on port 0 it is another one.
    func edgeAddress() throws(CommandFailure) -> ServerAddress {
        try address(flag: "--edge", given: edge, \.edge)
    }

    private func address(
        flag: String, given: String?, _ member: KeyPath<DataDirectory.Endpoints, String>
    ) throws(CommandFailure) -> ServerAddress {
        let authorities = caFile ?? Self.authoritiesOfEnvironment
        if let given { return try ServerAddress(given, from: flag, caFile: authorities) }
        let endpoints = try data.running.endpoints()
        var origin = data.running.endpointsFile
        if let process = endpoints.process {
            origin += endpoints.isRunning ? ", process \(process)" : ", but its process \(process) has ended"
        }
        return try ServerAddress(endpoints[keyPath: member], from: origin, caFile: authorities)
    }

    /// As curl and OpenSSL have it.
    private static var authoritiesOfEnvironment: String? {
        let environment = ProcessInfo.processInfo.environment
        return ["CURL_CA_BUNDLE", "SSL_CERT_FILE"].lazy.compactMap { environment[$0] }.first { !$0.isEmpty }
    }

    private func token() throws(CommandFailure) -> ControlToken {
        try ControlToken(readFrom: tokenFile ?? data.running.tokenFile)
    }
}

/// A listener's base URL and how we came to it, for the sentence when nobody answers there.
struct ServerAddress: Sendable {
    /// Scheme, host and port, without a final slash.
    let url: String
    let origin: String
    /// Trusted instead of the system's authorities; nil for those.
    private let caFile: String?

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
    func request(_ path: String, _ query: [URLQueryItem] = []) throws(CommandFailure) -> OutboundRequest {
        let words = query.map { "\($0.name)=\(Self.encoded($0.value ?? ""))" }.joined(separator: "&")
        do {
            let url = try OutboundURL(url + path + (words.isEmpty ? "" : "?" + words), maxBytes: Self.maxURLBytes)
            return OutboundRequest(url: url, policy: Self.anywhere, tls: caFile.map { OutboundTLS(caFile: $0) })
        } catch {
            throw CommandFailure(.usage, "the address \(url) (from \(origin)) \(error)")
        }
    }

    /// 64 topics of 255 characters do not fit into a request's head anyway.
    private static let maxURLBytes = 16 << 10

    /// Whoever runs the command may name any address: the guard is for URLs that strangers register.
    private static let anywhere = AddressPolicy(
        profile: .internal,
        allow: ["0.0.0.0/0", "::/0"].map { range in
            do { return try CIDR(range) } catch { preconditionFailure("\(error)") }
        })

    private static func encoded(_ text: String) -> String {
        let hex = Array("0123456789ABCDEF".utf8)
        return String(
            decoding: text.utf8.flatMap { byte in
                byte.isASCIIAlphanumeric || "-._~".utf8.contains(byte)
                    ? [byte] : [UInt8(ascii: "%"), hex[Int(byte >> 4)], hex[Int(byte & 15)]]
            }, as: UTF8.self)
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
    @Option(help: ArgumentHelp("Project, by id or number.", valueName: "id"), completion: .projects)
    var project = "demo"

    @Option(
        help: ArgumentHelp("Namespace: firebase (client) or firebase-server.", valueName: "name"),
        completion: .namespaces)
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
