import CCurl
import CLinux
import Glibc

/// One of libcurl's multi handles with the easy handles for it. Each request of a handle makes libcurl walk through all
/// connections of its multi handle once or twice, so thousands of hosts are spread over several.
struct CurlShelf {
    let curl: UnsafeMutablePointer<stalecast_curl>
    var pool: HandlePool

    /// Nil when memory is short.
    ///
    /// - Parameter counts: of all shelves of an engine: together they keep to the configuration, which is a share of the
    ///   process's descriptors.
    init?(
        epoll: Int32, number: Int, counts: UnsafeMutablePointer<stalecast_curl_counts>,
        _ configuration: OutboundConfiguration
    ) {
        let budget = stalecast_curl_budget(
            counts: counts, kept: configuration.keptConnections, handles: Int32(configuration.shelves))
        guard let curl = stalecast_curl_new(epoll, UInt32(number), budget) else { return nil }
        self.curl = curl
        let handles = max(8, 2 * configuration.keptHandles / configuration.shelves)
        pool = HandlePool(curl, capacity: handles, caFile: configuration.caFile)
    }

    /// A request's shelf is chosen by its host and port, so that all requests to one host share connections.
    static func number(of url: OutboundURL, among count: Int) -> Int { url.spread % count }
}

/// The shelves of an engine, which share an epoll descriptor and a budget of connections.
struct CurlShelves {
    let epoll: Int32
    /// Handles of the shelves.
    let curls: [UnsafeMutablePointer<stalecast_curl>]
    private var shelves: [CurlShelf]
    let counts = UnsafeMutablePointer<stalecast_curl_counts>.allocate(capacity: 1)

    /// Nil when memory or descriptors are short; to be freed by ``free()``.
    init?(_ configuration: OutboundConfiguration) {
        let epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
        counts.initialize(to: stalecast_curl_counts())
        shelves = (0..<configuration.shelves).compactMap { [counts] in
            CurlShelf(epoll: epoll, number: $0, counts: counts, configuration)
        }
        curls = shelves.map(\.curl)
        self.epoll = epoll
        guard epoll >= 0, shelves.count == configuration.shelves else {
            free()
            return nil
        }
    }

    var indices: Range<Int> { shelves.indices }

    subscript(number: Int) -> CurlShelf {
        get { shelves[number] }
        _modify { yield &shelves[number] }
    }

    mutating func free() {
        // Their easy handles first.
        shelves = []
        curls.forEach(stalecast_curl_free)
        counts.deallocate()
        if epoll >= 0 { close(epoll) }
    }
}

/// Easy handles that are not in use. A handle remembers the TLS session of the host it spoke to last, so a request gets
/// the handle that was used last for its key, if there is one.
struct HandlePool {
    private let capacity: Int
    private let curl: UnsafeMutablePointer<stalecast_curl>
    private let caFile: String?
    private let text = HeaderText()
    /// Handles by bits of their keys, which are hashes already; of each bucket the one used last, which leads to the ones
    /// before it.
    private var buckets: [EasyHandle?]
    private var count = 0
    /// Keys in the order in which handles came back; void when no handle of the key has that turn any more.
    private var order: [(key: Int, turn: UInt64)] = []
    private var first = 0
    private var turn: UInt64 = 0

    init(_ curl: UnsafeMutablePointer<stalecast_curl>, capacity: Int, caFile: String?) {
        self.curl = curl
        self.capacity = capacity
        self.caFile = caFile
        buckets = Array(repeating: nil, count: 1 << (Int.bitWidth - capacity.leadingZeroBitCount))
    }

    /// Frees all handles.
    mutating func empty() { self = HandlePool(curl, capacity: capacity, caFile: caFile) }

    /// Nil when memory is short.
    mutating func take(_ key: Int) -> EasyHandle? {
        if let handle = remove(key, { $0.key == key }) { return handle }
        // The one that would have to go soon serves as well.
        if count >= capacity, let handle = takeOldest() { return handle }
        return EasyHandle(curl, caFile: caFile, text)
    }

    mutating func give(_ handle: EasyHandle) {
        guard let key = handle.key else { return }
        turn += 1
        handle.turn = turn
        handle.older = buckets[bucket(key)]
        buckets[bucket(key)] = handle
        count += 1
        order.append((key, turn))
        if count > capacity { _ = takeOldest() }
        if order.count - first > 4 * capacity { forgetVoid() }
    }

    private mutating func takeOldest() -> EasyHandle? {
        while first < order.count {
            let (key, turn) = order[first]
            first += 1
            if let handle = remove(key, { $0.turn == turn }) { return handle }
        }
        return nil
    }

    private mutating func forgetVoid() {
        order = order[first...].filter { key, turn in
            var handle = buckets[bucket(key)]
            while let next = handle, next.turn != turn { handle = next.older }
            return handle != nil
        }
        first = 0
    }

    /// Index by the upper bits: the lower ones have chosen the shelf, and are the same in all of its keys.
    private func bucket(_ key: Int) -> Int { key >> 32 & (buckets.count - 1) }

    /// Takes the first wanted handle of the key's bucket out of the pool.
    private mutating func remove(_ key: Int, _ isWanted: (EasyHandle) -> Bool) -> EasyHandle? {
        var newer: EasyHandle?
        var next = buckets[bucket(key)]
        while let handle = next {
            next = handle.older
            guard isWanted(handle) else {
                newer = handle
                continue
            }
            handle.older = nil
            if let newer { newer.older = next } else { buckets[bucket(key)] = next }
            count -= 1
            return handle
        }
        return nil
    }
}
