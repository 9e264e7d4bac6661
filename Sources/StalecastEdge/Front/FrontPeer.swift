import CLinux

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// What the Front knows of a connection's other end and of the descriptor below its channel.
///
/// `@unchecked Sendable`: made by whoever accepted, from then on confined to the connection's event loop.
final class FrontPeer: @unchecked Sendable {
    /// The connection is over a cap: it gets a refusal.
    let isRefused: Bool
    private let address: UInt64
    private let ledger: AddressLedger
    /// The descriptor NIO owns; nil when the engine cannot take it over.
    private let fd: Int32?
    private let engine: StreamEngine?
    private var isReleased = false

    init(address: UInt64, isRefused: Bool, ledger: AddressLedger, fd: Int32?, engine: StreamEngine?) {
        self.address = address
        self.isRefused = isRefused
        self.ledger = ledger
        self.fd = fd
        self.engine = engine
    }

    /// Counts the connection out; once.
    func release() {
        guard !isReleased else { return }
        isReleased = true
        ledger.leave(address)
    }

    /// Gives the engine a duplicate of the descriptor and the request; the connection stays counted, under the
    /// engine. False when that cannot be done; then nothing has changed.
    func promote(_ request: StreamRequest) -> Bool {
        guard let engine, let fd, !isReleased else { return false }
        let duplicate = fcntl(fd, F_DUPFD_CLOEXEC, 0)
        guard duplicate >= 0 else { return false }
        isReleased = true
        engine.adopt(Shard.Adoption(fd: duplicate, address: address, request: request))
        return true
    }
}
