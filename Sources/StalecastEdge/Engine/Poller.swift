import CLinux
import Glibc

/// Descriptors that a shard waits on: its epoll, its listener, and the bell that other threads ring. Confined to the
/// shard's thread, but for ``ring()``.
final class Poller {
    static let listenerTag = UInt64.max
    static let wakeTag = UInt64.max - 1

    private let wakeDescriptor: Int32
    private let epoll: Int32
    /// Sends of a fan-out, many in one system call; nil before ``begin()``, and where the kernel has none.
    private(set) var batch: SendBatch?
    /// -1 for none.
    private(set) var listener: Int32
    private(set) var isListening = false
    /// `TCP_USER_TIMEOUT` as changed since the listener was made; nil when it was not.
    private(set) var userTimeoutMs: UInt32?

    /// - Parameter listener: a listening socket that it owns from here on.
    init(_ listener: Int32) throws(EdgeError) {
        self.listener = listener
        wakeDescriptor = stalecast_eventfd()
        epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
        guard wakeDescriptor >= 0, epoll >= 0 else { throw .noDescriptor(errno) }
    }

    deinit {
        close(wakeDescriptor)
        close(epoll)
    }

    /// Wakes the shard; any thread.
    func ring() { stalecast_ring(wakeDescriptor) }
    func takeRing() { stalecast_drain(wakeDescriptor) }

    func begin() {
        batch = SendBatch()
        stalecast_epoll_add_level(epoll, wakeDescriptor, Self.wakeTag)
        setListening(true)
    }

    func wait(_ events: UnsafeMutableBufferPointer<epoll_event>, _ milliseconds: Int32) -> Int {
        max(0, Int(epoll_wait(epoll, events.baseAddress, Int32(events.count), milliseconds)))
    }

    /// - Returns: false when the kernel has no room for it.
    func watch(_ fd: Int32, _ tag: UInt64) -> Bool { stalecast_epoll_add(epoll, fd, tag) == 0 }

    /// Stops watching a descriptor that another thread will own.
    func unwatch(_ fd: Int32) { stalecast_epoll_remove(epoll, fd) }

    func setListening(_ on: Bool) {
        guard listener >= 0, on != isListening else { return }
        isListening = on
        if on {
            stalecast_epoll_add_level(epoll, listener, Self.listenerTag)
        } else {
            stalecast_epoll_remove(epoll, listener)
        }
    }

    func stopListening() {
        setListening(false)
        if listener >= 0 { close(listener) }
        listener = -1
    }

    func setUserTimeout(_ milliseconds: UInt32) {
        userTimeoutMs = milliseconds
        if listener >= 0 { stalecast_set_user_timeout(listener, milliseconds) }
    }
}
