import CCurl

/// Easy handles that are not in use. A handle remembers TLS sessions of the hosts it spoke to last, so a request gets
/// the handle that the last request with its key had, if that is still there.
struct HandlePool {
    private let capacity: Int
    private let curl: UnsafeMutablePointer<stalecast_curl>
    private let caFile: String?
    private var byKey: [UInt64: EasyHandle] = [:]
    /// Keys in the order of their last use; may name keys that are used again or gone.
    private var order: [(key: UInt64, turn: UInt64)] = []
    private var first = 0
    private var turns: [UInt64: UInt64] = [:]
    private var turn: UInt64 = 0
    private var free: [EasyHandle] = []

    init(_ curl: UnsafeMutablePointer<stalecast_curl>, capacity: Int, caFile: String?) {
        self.curl = curl
        self.capacity = capacity
        self.caFile = caFile
    }

    var count: Int { byKey.count + free.count }

    /// True when the handle that a request with this key would get has just been in use on a connection.
    func isWarm(_ key: UInt64?) -> Bool { key.flatMap { byKey[$0] }?.isWarm ?? false }

    /// Frees all handles.
    mutating func empty() {
        byKey = [:]
        free = []
    }

    /// Nil when memory is short.
    mutating func take(_ key: UInt64?) -> EasyHandle? {
        if let key, let handle = byKey.removeValue(forKey: key) {
            turns[key] = nil
            return handle
        }
        return free.popLast() ?? EasyHandle(curl, caFile: caFile)
    }

    mutating func give(_ handle: EasyHandle) {
        guard let key = handle.key, byKey[key] == nil else {
            if free.count < 64 { free.append(handle) }
            return
        }
        byKey[key] = handle
        turn += 1
        turns[key] = turn
        order.append((key, turn))
        if byKey.count > capacity { dropOldest() }
        if first > 4096 {
            order.removeFirst(first)
            first = 0
        }
    }

    private mutating func dropOldest() {
        while first < order.count {
            let (key, turn) = order[first]
            first += 1
            guard turns[key] == turn, let handle = byKey.removeValue(forKey: key) else { continue }
            turns[key] = nil
            if free.count < 64 { free.append(handle) }
            return
        }
    }
}
