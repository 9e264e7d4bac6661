import CLinux
import Glibc
import NIOHTTP1
import StalecastHTTP
import StalecastHub
import StalecastWire

/// Facts about a connection's other end and about the descriptor below its channel.
///
/// `@unchecked Sendable`: made by the accepting thread, from then on confined to the connection's event loop.
final class FrontPeer: @unchecked Sendable {
    /// The connection is over a cap: it gets a refusal.
    private(set) var isRefused: Bool
    private(set) var address: UInt64
    /// The other end, when it is trusted to speak for others; nil when it speaks for itself.
    let proxy: IPAddress?
    let ledger: AddressLedger
    /// The descriptor NIO owns; nil when the engine cannot take it over.
    private let fd: Int32?
    private let isTLS: Bool
    /// The engine has had it before, and gave it back: it is likely to do so again.
    private let isReturned: Bool
    private let engine: StreamEngine?
    /// Our own, which is asked for nothing and counted nowhere: see ``Canaries``.
    let isCanary: Bool
    private var isReleased = false

    init(
        address: UInt64, proxy: IPAddress? = nil, isRefused: Bool = false, ledger: AddressLedger, fd: Int32? = nil,
        isTLS: Bool = false, isReturned: Bool = false, engine: StreamEngine? = nil, isCanary: Bool = false
    ) {
        (self.address, self.proxy, self.isRefused, self.ledger, self.fd) = (address, proxy, isRefused, ledger, fd)
        (self.isTLS, self.isReturned, self.engine, self.isCanary) = (isTLS, isReturned, engine, isCanary)
    }

    /// Address in the form of the hub's book: behind a loopback address is a proxy, which speaks for all.
    var clientAddress: RolloutTracker.Address { (address, !stalecast_is_loopback_key(address)) }

    /// Takes a trusted proxy's word for whose request this is.
    ///
    /// - Returns: false when that client has had too many connections before this one.
    func believe(_ head: RequestHead, _ settings: EdgeSettings) -> Bool {
        guard let proxy, !isReleased else { return true }
        let said = head.headers[settings.proxies.field.rawValue]
        let client = settings.proxies.client(behind: proxy, saying: said).key
        let isAdmitted = ledger.move(from: address, to: client, caps: settings.caps)
        address = client
        if !isAdmitted { isRefused = true }
        return isAdmitted
    }

    /// A client's own connection, which is within its caps.
    var isOrdinary: Bool { !isRefused && !isCanary && proxy == nil }

    /// Counts the connection out; once.
    func release() {
        guard !isReleased, !isCanary else { return }
        isReleased = true
        ledger.leave(address)
    }

    /// Hands a connection over TLS to the engine once its answer was written, at most once. A plain one comes from the
    /// engine, which did not recognise what it asks.
    func promoteIdle(from connection: HTTPConnection) -> Bool {
        isTLS && !isReturned && connection.isWritable && promote(nil, from: connection)
    }

    /// Gives the engine a duplicate of the descriptor, the TLS over it and the request; the connection stays counted,
    /// under the engine. False when that cannot be done; then nothing has changed.
    ///
    /// - Parameter request: nil when the next one is to be read.
    func promote(_ request: StreamRequest?, from connection: HTTPConnection) -> Bool {
        guard let engine, let fd, !isReleased else { return false }
        let duplicate = fcntl(fd, F_DUPFD_CLOEXEC, 0)
        guard duplicate >= 0 else { return false }
        let tls = isTLS ? connection.detachTLS() : nil
        guard isTLS == (tls != nil) else {
            close(duplicate)
            return false
        }
        // The engine counts it out: `release()`, which follows for this channel, must not do so as well.
        isReleased = true
        engine.postToNext(
            .adopt(Shard.Adoption(fd: duplicate, address: address, request: request, tls: tls, proxy: proxy)))
        return true
    }
}
