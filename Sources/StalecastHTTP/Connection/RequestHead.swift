package import NIOHTTP1
import StalecastWire

/// A request's head after the rules that are beyond the parser's: nothing that two servers could read differently.
package struct RequestHead: Sendable {
    package enum Framing: Sendable, Hashable {
        case none
        case length(Int)
        case chunked
    }

    package let method: HTTPMethod
    /// Percent-encoded, without the query.
    package let path: Substring
    /// Percent-encoded; empty when there is none.
    package let query: Substring
    /// Fields without the blanks around their values, which are no part of them (RFC 9110 §5.5).
    package let headers: HTTPHeaders
    package let isHTTP11: Bool
    /// Whether the connection may serve another request after this one; never with HTTP/1.0.
    package let keepsAlive: Bool
    package let framing: Framing
    /// The client waits for `100 Continue` before it sends the body.
    package let expectsContinue: Bool

    /// The fields that decide about the message itself.
    private struct Fields {
        var hosts = 0
        var host: Substring = ""
        var lengths = 0
        var length: Substring = ""
        var codings = 0
        var coding: Substring = ""
        var closes = false
        var expectsContinue = false
        var marksAreFew = true

        init(_ headers: HTTPHeaders) {
            for (name, value) in headers {
                marksAreFew = marksAreFew && CombiningMarks.areFew(in: value)
                switch name.utf8.count {
                case 4 where name.isField("host"):
                    hosts += 1
                    host = value[...]
                case 6 where name.isField("expect"): expectsContinue = value.isField("100-continue")
                // No upgrade is followed, but the parser stops at one.
                case 7 where name.isField("upgrade"): closes = true
                case 10 where name.isField("connection"):
                    closes = closes || value.split(separator: ",").contains { $0.trimmingBlanks().isField("close") }
                case 14 where name.isField("content-length"):
                    lengths += 1
                    length = value[...]
                case 17 where name.isField("transfer-encoding"):
                    codings += 1
                    coding = value[...]
                default: break
                }
            }
        }
    }

    /// - Parameter isStream: the request is one of an HTTP/2 connection's, whose answers have no chunks and no
    ///   successor.
    /// - Throws: what to answer instead; the connection ends with it.
    package init(
        _ head: HTTPRequestHead, hosts rule: HostRule = .any, isStream: Bool = false
    ) throws(GoogleError) {
        guard head.version == .http1_1 || head.version == .http1_0 else {
            throw GoogleError(505, "INVALID_ARGUMENT", "This server speaks HTTP/1.1.").closing()
        }
        headers = Self.bare(head.headers)
        let fields = Fields(headers)
        guard fields.marksAreFew else { throw .malformed("A header field has too many combining marks in a row.") }
        let hasHTTP11Rules = head.version == .http1_1
        isHTTP11 = hasHTTP11Rules && !isStream
        method = head.method
        framing = try Self.framing(fields, hasHTTP11Rules)
        let (target, authority) = try Self.target(head)
        try Self.check(fields, hasHTTP11Rules, authority, rule)
        (path, query) = Self.split(target)
        // An HTTP/1.0 connection and a stream of HTTP/2 end with their answer.
        keepsAlive = isHTTP11 && !fields.closes
        expectsContinue = isHTTP11 && fields.expectsContinue && framing != .none
    }

    /// Whether bytes begin with a request line as RFC 9112 §3 has it, whatever its method: a token, a target and a
    /// version, one space apart.
    package static func beginsWell(_ bytes: some Collection<UInt8>) -> Bool {
        let line = bytes.drop { $0 == 0x0D || $0 == 0x0A }.prefix { $0 != 0x0D && $0 != 0x0A }
        let parts = line.split(separator: 0x20, omittingEmptySubsequences: false)
        return parts.count == 3 && isToken(parts[0]) && !parts[1].isEmpty
    }

    /// RFC 9110 §5.6.2.
    static func isToken(_ bytes: some Collection<UInt8>) -> Bool {
        !bytes.isEmpty
            && bytes.allSatisfy {
                switch $0 {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
                case 0x21, 0x23...0x27, 0x2A, 0x2B, 0x2D, 0x2E, 0x5E...0x60, 0x7C, 0x7E: true
                default: false
                }
            }
    }

    /// The parser leaves blanks at the end of values; hardly any client sends them.
    private static func bare(_ headers: HTTPHeaders) -> HTTPHeaders {
        func isPadded(_ value: String) -> Bool {
            guard let (first, last) = value.utf8.first.map({ ($0, value.utf8.last!) }) else { return false }
            return first == 0x20 || first == 0x09 || last == 0x20 || last == 0x09
        }
        guard headers.contains(where: { isPadded($0.value) }) else { return headers }
        return HTTPHeaders(headers.map { ($0.name, String($0.value.trimmingBlanks())) })
    }

    /// RFC 9112 §6: one length or chunks, never both; chunks are HTTP/1.1's.
    private static func framing(_ fields: Fields, _ isHTTP11: Bool) throws(GoogleError) -> Framing {
        if fields.lengths > 1 { throw .malformed("A request has one Content-Length at most.") }
        if fields.codings > 0 {
            if fields.lengths > 0 { throw .malformed("A request has Content-Length or Transfer-Encoding, not both.") }
            guard isHTTP11, fields.codings == 1, fields.coding.isField("chunked") else {
                throw .malformed("The only Transfer-Encoding this server understands is chunked, in HTTP/1.1.")
            }
            return .chunked
        }
        guard fields.lengths == 1 else { return .none }
        guard !fields.length.isEmpty, fields.length.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            throw .malformed("Content-Length must be a number.")
        }
        // More than fits is more than any limit.
        let length = Int(fields.length) ?? .max
        return length == 0 ? .none : .length(length)
    }

    /// The target's path and query, and the authority of an absolute one, which replaces the `Host` field's.
    private static func target(_ head: HTTPRequestHead) throws(GoogleError) -> (Substring, Substring?) {
        if head.method == .CONNECT { throw GoogleError.methodNotAllowed(["GET", "PUT", "POST"]).closing() }
        let text = head.uri
        guard text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw .malformed("The request's target must be percent-encoded ASCII.")
        }
        if text.utf8.first == UInt8(ascii: "/") || (text == "*" && head.method == .OPTIONS) { return (text[...], nil) }
        guard let colon = text.utf8.firstIndex(of: UInt8(ascii: ":")) else {
            throw .malformed("The request's target must begin with a slash.")
        }
        // Clients of a proxy send the absolute form, which a server must accept too (RFC 9112 §3.2.2).
        let scheme = text[..<colon]
        guard scheme.isField("http") || scheme.isField("https"), text[scheme.endIndex...].hasPrefix("://") else {
            throw .malformed("The request's target must begin with a slash.")
        }
        let rest = text[scheme.endIndex...].dropFirst(3)
        let end = rest.utf8.firstIndex { "/?#".utf8.contains($0) } ?? rest.endIndex
        let path = rest[end...]
        return (path.utf8.first == UInt8(ascii: "/") ? path : "/" + path, rest[..<end])
    }

    /// The path and the query of a target, by bytes: it is ASCII, and this is done before the caller is known.
    private static func split(_ target: Substring) -> (path: Substring, query: Substring) {
        let bytes = target.utf8
        let whole = bytes.firstIndex(of: UInt8(ascii: "#")).map { target[..<$0] } ?? target
        guard let mark = whole.utf8.firstIndex(of: UInt8(ascii: "?")) else { return (whole, "") }
        return (whole[..<mark], whole[whole.utf8.index(after: mark)...])
    }

    private static func check(
        _ fields: Fields, _ isHTTP11: Bool, _ authority: Substring?, _ rule: HostRule
    ) throws(GoogleError) {
        if fields.hosts > 1 { throw .malformed("A request has one Host header, not \(fields.hosts).") }
        if fields.hosts == 0, isHTTP11 { throw .malformed("An HTTP/1.1 request needs a Host header.") }
        if let authority { return try admit(rule.judge(authority)) }
        if fields.hosts == 1 { try admit(rule.judge(fields.host)) }
    }

    private static func admit(_ match: HostRule.Match) throws(GoogleError) {
        switch match {
        case .admitted: return
        case .invalid: throw .malformed("The request's host is not valid.")
        case .foreign: throw .misdirected
        }
    }
}

extension StringProtocol {
    /// Whether this is `field`, which is in lower case, whatever the case here.
    package func isField(_ field: StaticString) -> Bool {
        let bytes = utf8
        guard bytes.count == field.utf8CodeUnitCount else { return false }
        var offset = 0
        for byte in bytes {
            guard
                (0x41...0x5A).contains(byte) ? byte | 0x20 == field.utf8Start[offset] : byte == field.utf8Start[offset]
            else { return false }
            offset += 1
        }
        return true
    }
}
