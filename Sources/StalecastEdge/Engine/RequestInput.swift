/// Requests of plain connections that were read and not taken. A request is read at once, because nearly every one is
/// served at once; the others wait here, or go to the Front with what was read of them.
struct RequestInput {
    /// Place of the request that is looked at.
    let buffer: UnsafeMutableBufferPointer<UInt8>
    /// Connection that is looked at, and bytes of its request at the beginning of ``buffer``.
    private var current: (index: Int32, count: Int) = (-1, 0)
    /// Requests that wait for their body, for a token to be verified, or for the shard to catch up with the hub.
    private var waiting: [Int32: [UInt8]] = [:]

    init(capacity: Int) { buffer = .allocate(capacity: capacity) }

    /// Puts what a connection has waiting at the beginning of ``buffer``.
    ///
    /// - Returns: the number of bytes.
    mutating func resume(_ index: Int32) -> Int {
        guard !waiting.isEmpty, let bytes = waiting.removeValue(forKey: index) else { return 0 }
        return buffer.update(fromContentsOf: bytes)
    }

    mutating func keep(_ count: Int, of index: Int32) { current = (index, count) }

    /// The request in ``buffer`` is served.
    mutating func take() { current.count = 0 }

    /// Keeps the request in ``buffer`` if it was not served: the next connection's comes there.
    mutating func keep() {
        guard current.count > 0 else { return }
        waiting[current.index] = Array(buffer[0..<current.count])
        current.count = 0
    }

    /// Connections that have something waiting.
    var owners: some Sequence<Int32> { waiting.keys }

    /// Takes the waiting input of a connection that ends, or that another owner has from here on.
    mutating func remove(_ index: Int32) -> [UInt8] {
        if current.index == index { keep() }
        return waiting.isEmpty ? [] : waiting.removeValue(forKey: index) ?? []
    }
}
