import CLinux
import Foundation
import StalecastHTTP

/// The sockets of one loop: makes connections, writes requests, reads into one buffer, waits. What a connection is for
/// is the loop's business.
struct LoopSockets {
    private static let maxEvents = 1024

    let epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
    private let inbox: UnsafeMutableRawBufferPointer
    private let events: UnsafeMutableBufferPointer<epoll_event>
    /// TLS sessions by descriptor, with the bytes that the handshake still keeps from being sent.
    private var sealed: [Int32: (session: TLSSession, unsent: [UInt8])] = [:]

    enum Input {
        case bytes(Bytes, mayBeMore: Bool)
        case interrupted, nothing
        case end(LoadTally.Failure)
    }

    init(inboxBytes: Int) {
        inbox = .allocate(byteCount: inboxBytes, alignment: 16)
        events = .allocate(capacity: Self.maxEvents)
        events.initialize(repeating: epoll_event())
    }

    func free() {
        for (session, _) in sealed.values { session.free() }
        close(epoll)
        inbox.deallocate()
        events.deallocate()
    }

    /// The tags and events of what is ready, after at most so long.
    func wait(milliseconds: Int32) -> some Sequence<(tag: UInt64, events: UInt32)> {
        let count = epoll_wait(epoll, events.baseAddress, Int32(Self.maxEvents), milliseconds)
        return events[..<max(0, Int(count))].lazy.map { event in
            (withUnsafePointer(to: event) { stalecast_event_tag($0) }, event.events)
        }
    }

    /// A socket that is connecting, in the epoll set under `index`; nil with `errno` set.
    ///
    /// - Parameter number: of the connection among all of the load, which chooses its source address.
    mutating func connect(_ target: LoadTarget, _ index: Int, number: Int) -> Int32? {
        let descriptor = LoadTarget.makeSocket(target.family)
        guard descriptor >= 0 else { return nil }
        let source = UInt32(2 + number / LoadPlan.connectionsPerSource)
        let isBound = !target.hasManySources || LoadTarget.bindToLoopback(descriptor, number: source) == 0
        if isBound, LoadTarget.startConnecting(descriptor, to: target.socketAddress) == 0 || errno == EINPROGRESS,
            stalecast_epoll_add(epoll, descriptor, UInt64(index)) == 0
        {
            guard let tls = target.tls else { return descriptor }
            if let session = try? tls.session(over: descriptor) {
                sealed[descriptor] = (session, [])
                return descriptor
            }
            errno = ENOMEM
        }
        // The caller reads errno, and close may change it.
        let error = errno
        close(descriptor)
        errno = error
        return nil
    }

    mutating func disconnect(_ descriptor: Int32) {
        sealed.removeValue(forKey: descriptor)?.session.free()
        close(descriptor)
    }

    /// Nil when all of it went out: an empty socket buffer takes a request whole, anything else is an error. Over TLS
    /// it may have to wait for the handshake, which ``read(_:)`` goes on with.
    mutating func send(_ request: [UInt8], _ descriptor: Int32) -> LoadTally.Failure? {
        if let session = sealed[descriptor]?.session {
            let sent = request.withUnsafeBytes { session.send($0.baseAddress!, $0.count) }
            sealed[descriptor]?.unsent = sent == 0 ? request : []
            return sent == 0 || sent == request.count ? nil : .broken
        }
        let sent = request.withUnsafeBytes { stalecast_send(descriptor, $0.baseAddress, $0.count) }
        return sent == request.count ? nil : .system(sent < 0 ? errno : EAGAIN)
    }

    /// Reads once. A short read has emptied the socket, and later input is a new edge.
    mutating func read(_ descriptor: Int32) -> Input {
        if let (session, unsent) = sealed[descriptor] {
            if !unsent.isEmpty, let failure = send(unsent, descriptor) { return .end(failure) }
            let count = session.read(inbox.baseAddress, inbox.count)
            guard count > 0 else { return count == 0 ? .nothing : .end(.ended) }
            // The session may hold more text of bytes that have left the socket, of which epoll tells nothing.
            return .bytes(Bytes(rebasing: UnsafeRawBufferPointer(inbox)[..<count]), mayBeMore: true)
        }
        let count = recv(descriptor, inbox.baseAddress, inbox.count, 0)
        if count > 0 {
            return .bytes(Bytes(rebasing: UnsafeRawBufferPointer(inbox)[..<count]), mayBeMore: count == inbox.count)
        }
        if count == 0 { return .end(.ended) }
        return errno == EINTR ? .interrupted : errno == EAGAIN ? .nothing : .end(.system(errno))
    }

    /// True for events after which nothing comes any more.
    static func tellsEnd(_ events: UInt32) -> Bool {
        events & (EPOLLRDHUP.rawValue | EPOLLHUP.rawValue | EPOLLERR.rawValue) != 0
    }
}
