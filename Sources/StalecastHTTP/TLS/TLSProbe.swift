import Glibc
import NIOCore
import NIOPosix
package import NIOSSL
import NIOTLS
import StalecastWire

package struct TLSProbe: Sendable {
    /// Its own certificate first, as it sent them.
    package let chain: [NIOSSLCertificate]
    /// `TLSv1.3`; nil for a file.
    package let version: String?
    /// Reason why a client with these roots does not trust the server; nil when it does, or was not asked.
    package let problem: String?

    package init(file: [UInt8], name: String) throws(TLSProblem) {
        chain = try TLSIdentity.certificates(file, name)
        version = nil
        problem = nil
    }

    /// Connects twice: to see the certificates whatever they are, and as a client that verifies them.
    ///
    /// - Parameters:
    ///   - host: a name, which the certificate must be for, or an address.
    ///   - roots: the authorities trusted; nil: the system's.
    /// - Throws: ``TLSProblem`` when no server answers, or it does not speak TLS.
    package init(host: String, port: Int, roots: [NIOSSLCertificate]?) async throws(TLSProblem) {
        let seen: Handshake
        do { seen = try await Self.connect(host, port, roots, verifies: false) } catch {
            throw TLSProblem("\(HostPort.text(host, port)) shows no certificate: \(Self.reason(error))")
        }
        chain = seen.chain
        version = seen.version
        do {
            _ = try await Self.connect(host, port, roots, verifies: true)
            // NIO also takes a certificate for the address that the name has; browsers and curl do not.
            problem = Self.isAddress(host) || Self.isFor(host, chain) ? nil : Self.otherNames
        } catch { problem = Self.reason(error) }
    }

    private struct Handshake: Sendable {
        var chain: [NIOSSLCertificate] = []
        var version: String?
    }

    private static func connect(
        _ host: String, _ port: Int, _ roots: [NIOSSLCertificate]?, verifies: Bool
    ) async throws -> Handshake {
        var configuration = TLSConfiguration.makeClientConfiguration()
        if let roots { configuration.trustRoots = .certificates(roots) }
        configuration.applicationProtocols = ["http/1.1"]
        // NIO looks at the name also where a callback judges the chain.
        if !verifies { configuration.certificateVerification = .noHostnameVerification }
        let context = try NIOSSLContext(configuration: configuration)
        let name = isAddress(host) ? nil : host
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let seen = loop.makePromise(of: Handshake.self)
        ClientBootstrap(group: loop)
            .connectTimeout(.seconds(10))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let watcher = Watcher(seen)
                    let bound = NIOLoopBound(watcher, eventLoop: channel.eventLoop)
                    let tls =
                        verifies
                        ? try NIOSSLClientHandler(context: context, serverHostname: name)
                        : try NIOSSLClientHandler(
                            context: context, serverHostname: name,
                            customVerificationCallback: { chain, verdict in
                                bound.value.handshake.chain = chain
                                verdict.succeed(.certificateVerified)
                            })
                    watcher.tls = tls
                    try channel.pipeline.syncOperations.addHandlers([tls, watcher])
                }
            }
            .connect(host: host, port: port)
            .whenFailure { seen.fail($0) }
        return try await seen.futureResult.get()
    }

    private static func isAddress(_ host: String) -> Bool { (try? SocketAddress(ipAddress: host, port: 0)) != nil }

    private static func isFor(_ name: String, _ chain: [NIOSSLCertificate]) -> Bool {
        ServerNames([[], chain.first?.dnsNames ?? []]).index(for: name) == 1
    }

    private static let otherNames = "the certificate is for other names"

    private static func reason(_ error: any Error) -> String {
        if let failure = error as? NIOConnectionError {
            return failure.connectionErrors.first.map { reason($0.error) } ?? "the name \(failure.host) is not known"
        }
        if let error = error as? IOError {
            return error.errnoCode == ECONNREFUSED ? "no server there" : String(cString: strerror(error.errnoCode))
        }
        if case ChannelError.connectTimeout = error { return "no answer within 10 s" }
        let text = "\(error)"
        let known = [
            ("CERTIFICATE_VERIFY_FAILED", "no trusted authority signed it, or it is not valid now"),
            ("WRONG_VERSION_NUMBER", "it does not speak TLS"), ("HTTP_REQUEST", "it does not speak TLS"),
            ("failedToValidateHostname", otherNames), ("unableToValidateCertificate", otherNames),
            ("eofDuringHandshake", "it ended the handshake"), ("EOF during handshake", "it ended the handshake"),
        ]
        return known.first { text.contains($0.0) }?.1 ?? text
    }

    /// Ends with the handshake.
    private final class Watcher: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        private var seen: EventLoopPromise<Handshake>?
        var handshake = Handshake()
        var tls: NIOSSLClientHandler?

        init(_ seen: EventLoopPromise<Handshake>) { self.seen = seen }

        func handlerAdded(context: ChannelHandlerContext) {
            let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
            context.eventLoop.scheduleTask(in: .seconds(10)) {
                bound.value.0.finish(.failure(TLSProblem("no handshake within 10 s")))
            }
        }

        func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
            guard case TLSUserEvent.handshakeCompleted = event else { return }
            switch tls?.tlsVersion {
            case .tlsv13: handshake.version = "TLSv1.3"
            case .tlsv12: handshake.version = "TLSv1.2"
            case let other: handshake.version = other.map { "\($0)" }
            }
            finish(.success(handshake))
            context.close(promise: nil)
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) {
            finish(.failure(error))
            context.close(promise: nil)
        }

        func channelInactive(context: ChannelHandlerContext) {
            finish(.failure(TLSProblem("it ended the handshake")))
        }

        private func finish(_ result: Result<Handshake, any Error>) {
            tls = nil
            seen?.completeWith(result)
            seen = nil
        }
    }
}

extension NIOSSLCertificate {
    /// The DNS names and addresses that it is for.
    package var subjectNames: [String] {
        dnsNames
            + _subjectAlternativeNames().compactMap { name in
                // A field of another length holds no address.
                name.nameType == .ipAddress
                    ? try? SocketAddress(packedIPAddress: ByteBuffer(bytes: name.contents), port: 0).ipAddress : nil
            }
    }

    /// `ECDSA P-256`, `RSA 2048`; `unknown` for what no browser takes either.
    package var keyType: String {
        guard let key = try? extractPublicKey().toSPKIBytes() else { return "unknown" }
        let kinds: [([UInt8], String)] = [
            ([0x06, 0x08, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07], "ECDSA P-256"),
            ([0x06, 0x05, 0x2B, 0x81, 0x04, 0x00, 0x22], "ECDSA P-384"),
            ([0x06, 0x05, 0x2B, 0x81, 0x04, 0x00, 0x23], "ECDSA P-521"),
            ([0x06, 0x03, 0x2B, 0x65, 0x70], "Ed25519"),
            // What is around the modulus has 38 bytes.
            (
                [0x06, 0x09, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x01],
                "RSA \(max(0, key.count - 38) * 8)"
            ),
        ]
        let head = key.prefix(32)
        return kinds.first { head.firstRange(of: $0.0) != nil }?.1 ?? "unknown"
    }
}
