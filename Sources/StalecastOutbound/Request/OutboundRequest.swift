/// One request to a foreign server. Its ``target`` has the parts that further requests to the server share; the target's
/// members are members of the request as well.
@dynamicMemberLookup
package struct OutboundRequest: Sendable {
    package private(set) var target: OutboundTarget
    /// Lines that this request shares with others; sent before those of the target.
    package var sharedHeaders: OutboundHeaderLines?
    /// Header lines that the sender has made itself for this request, separated by `\r\n`; sent last.
    package var signatureLines: [UInt8] = []
    private(set) var content = Content.none

    enum Content: Sendable {
        case none
        case own([UInt8])
        /// Body that other requests have as well; its memory is lent.
        case shared(OutboundBody)
    }

    package init(_ target: OutboundTarget, sharedHeaders: OutboundHeaderLines? = nil) {
        self.target = target
        self.sharedHeaders = sharedHeaders
    }

    package init(
        method: String = "GET", url: OutboundURL, headers: [OutboundHeader] = [], body: [UInt8]? = nil,
        limits: OutboundLimits = OutboundLimits(), policy: AddressPolicy = .publicOnly, tls: OutboundTLS? = nil,
        keptHeaders: Set<String> = []
    ) {
        target = OutboundTarget(
            OutboundTarget.Terms(
                method: method, url: url, headers: headers, limits: limits, policy: policy, tls: tls,
                keptHeaders: keptHeaders))
        self.body = body
    }

    /// Bytes of the body; nil sends none.
    package var body: [UInt8]? {
        get {
            switch content {
            case .none: nil
            case .own(let bytes): bytes
            case .shared(let body): body.bytes
            }
        }
        set { content = newValue.map { .own($0) } ?? .none }
    }

    /// Sends a body that other requests have as well.
    package mutating func share(_ body: OutboundBody) { content = .shared(body) }

    package subscript<Value>(dynamicMember path: WritableKeyPath<OutboundTarget.Terms, Value>) -> Value {
        get { target.terms[keyPath: path] }
        set {
            var terms = target.terms
            terms[keyPath: path] = newValue
            target = OutboundTarget(terms)
        }
    }
}

/// Receiver of requests, with the parts that all of them share. A handle that was set up for a target serves the target's
/// next request as it is.
package final class OutboundTarget: Sendable {
    package let terms: Terms
    /// Requests with one key go to one host with the same certificates, and use each other's handles: those know the
    /// host's TLS session.
    let handleKey: Int
    let hasContentType: Bool

    init(_ terms: Terms) {
        self.terms = terms
        hasContentType = terms.headers.contains(where: \.isContentType)
        handleKey = terms.tls.map { terms.url.spread ^ $0.hashValue } ?? terms.url.spread
    }

    package struct Terms: Sendable {
        /// `GET`, `POST`, `OPTIONS`, …; sent as it stands.
        package var method: String
        package var url: OutboundURL
        package var headers: [OutboundHeader]
        package var limits: OutboundLimits
        /// Rule for the addresses that may be dialled.
        package var policy: AddressPolicy
        /// Certificates beyond the system's; nil for those alone.
        package var tls: OutboundTLS?
        /// Lower-case names of the headers of the answer that are wanted.
        package var keptHeaders: Set<String>
    }
}

/// Limits of a request's time and size.
package struct OutboundLimits: Sendable, Hashable {
    /// Limit for name, connection and TLS together.
    package var connectTimeout: Duration
    /// Limit for everything, from the first attempt to connect to the last byte; `.zero` is no limit (streams).
    package var timeout: Duration
    /// Bytes of the body that are kept.
    package var maxBodyBytes: Int
    package var overflow: Overflow

    /// Rule for a body that is longer.
    package enum Overflow: Sendable, Hashable {
        /// The start is kept, the request succeeds. At 64 KiB beyond it the connection is closed.
        case truncate
        /// The request fails with ``OutboundFailure/Reason/tooLarge``.
        case fail
    }

    package init(
        connectTimeout: Duration = .seconds(5), timeout: Duration = .seconds(15), maxBodyBytes: Int = 4096,
        overflow: Overflow = .truncate
    ) {
        self.connectTimeout = connectTimeout
        self.timeout = timeout
        self.maxBodyBytes = maxBodyBytes
        self.overflow = overflow
    }

    /// Longest time that a request waits for its host's addresses.
    var longestLookup: Duration { timeout == .zero ? connectTimeout : min(connectTimeout, timeout) }

    /// Limits that are left of the times.
    func after(_ spent: Duration) -> OutboundLimits {
        var left = self
        left.connectTimeout = max(.milliseconds(1), connectTimeout - spent)
        if timeout > .zero { left.timeout = max(.milliseconds(1), timeout - spent) }
        return left
    }
}

/// PEM files for one connection.
package struct OutboundTLS: Sendable, Hashable {
    /// Certificates trusted instead of the system's.
    package var caFile: String?
    /// File of the certificate that this side shows, with its key.
    package var certificateFile: String?
    package var keyFile: String?
    /// True for requests that show no secret and believe nothing but the status, such as a health check.
    package var trustsAnyServer: Bool

    package init(
        caFile: String? = nil, certificateFile: String? = nil, keyFile: String? = nil, trustsAnyServer: Bool = false
    ) {
        self.trustsAnyServer = trustsAnyServer
        self.caFile = caFile
        self.certificateFile = certificateFile
        self.keyFile = keyFile
    }
}
