import Dispatch
import NIOCore
import StalecastHTTP
import Synchronization

/// Codings of an answer's body that a client takes.
enum ContentCoding {
    /// Whether the value of `Accept-Encoding` admits gzip (RFC 9110 §12.5.3). A weight of 0 forbids it.
    static func admitsGzip(_ value: String) -> Bool {
        if value == "gzip" { return true }
        return value.utf8.split(separator: UInt8(ascii: ",")).contains { item in
            let item = item.filter { $0 != 0x20 && $0 != 0x09 }
            guard item.prefix(4).map({ $0 | 0x20 }).elementsEqual("gzip".utf8) else { return false }
            let weight = item.dropFirst(4)
            return weight.isEmpty || weight.first == UInt8(ascii: ";") && weight.contains { (0x31...0x39).contains($0) }
        }
    }
}

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
