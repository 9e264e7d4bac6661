import Dispatch
import NIOCore
import StalecastHTTP
import Synchronization

/// An answer in gzip, which is made when it is asked for the second time: many answers are one client's alone.
struct PackedAnswer: Sendable {
    private var requests = 0
    /// nil until it is made, and where it would not be much smaller.
    var bytes: FetchBytes?

    /// Smallest body that is packed, in bytes. A smaller one fits into one packet, so that gzip saves nothing.
    static let leastBytes = 1400

    /// - Returns: whether it is to be made now.
    mutating func ask() -> Bool {
        guard requests < 2 else { return false }
        requests += 1
        return requests == 2
    }
}

extension FetchBytes {
    /// Packs bodies, so that no stream waits for it.
    private static let packer = DispatchQueue(label: "stalecast.gzip", qos: .utility)

    /// The bytes for a client: in gzip when it takes that and they are there.
    func coded(admitsGzip: Bool) -> FetchBytes {
        guard admitsGzip, body.readableBytes >= PackedAnswer.leastBytes else { return self }
        let (packed, isDue) = packed.withLock { ($0.bytes, $0.bytes == nil && $0.ask()) }
        if isDue { Self.packer.async { self.pack() } }
        return packed ?? self
    }

    private func pack() {
        // Half of the body has a place in the cache's books.
        guard let gzip = Deflater.gzip(Array(body.readableBytesView), most: body.readableBytes / 2) else { return }
        let made = FetchBytes(body: ByteBuffer(bytes: gzip), state: state, etag: etag, isPacked: true)
        packed.withLock { $0.bytes = made }
    }
}
