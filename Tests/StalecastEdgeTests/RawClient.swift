import Glibc
import Testing

/// A TCP client that sends what it is told and keeps every byte it gets, opened where it speaks TLS.
final class RawClient {
    private(set) var fd: Int32
    private(set) var received: [UInt8] = []
    private(set) var isEnded = false
    /// nil on a plain connection.
    let tls: TLSWire?

    struct TimedOut: Error { let received: String }

    /// - Parameter receiveBuffer: bytes the kernel may hold for us; small ones make a stalled reader.
    init(port: Int, receiveBuffer: Int32 = 0, tls: TLSWire? = nil) {
        self.tls = tls
        fd = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        if receiveBuffer > 0 {
            var size = receiveBuffer
            setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, 4)
        }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        let connected = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(fd, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard connected == 0 else {
            Issue.record("connect: \(errno)")
            isEnded = true
            return
        }
        tls?.shakeHands(over: fd)
    }

    deinit { close() }

    var text: String { String(decoding: received, as: UTF8.self) }

    func send(_ text: String) { send(Array(text.utf8)) }
    func send(_ bytes: [UInt8]) { if let tls { tls.send(bytes) } else { sendRaw(bytes) } }
    func sendRaw(_ bytes: [UInt8]) { _ = Glibc.send(fd, bytes, bytes.count, Int32(MSG_NOSIGNAL)) }

    func get(_ target: String, version: String = "1.1", headers: [String] = []) {
        let lines = ["GET \(target) HTTP/\(version)", "Host: localhost"] + headers
        send(lines.joined(separator: "\r\n") + "\r\n\r\n")
    }

    /// Reads until `isEnough`, the peer's end, or the time is up.
    @discardableResult
    func read(for seconds: Double = 60, until isEnough: (RawClient) -> Bool) throws -> String {
        let end = Clock.now() + seconds
        while !isEnough(self) {
            if isEnded || Clock.now() > end { throw TimedOut(received: text) }
            readSome(milliseconds: 50)
        }
        return text
    }

    @discardableResult
    func read(for seconds: Double = 60, untilText part: String) throws -> String {
        try read(for: seconds) { $0.text.contains(part) }
    }

    func readToEnd(for seconds: Double = 60) throws -> String {
        let end = Clock.now() + seconds
        while !isEnded {
            if Clock.now() > end { throw TimedOut(received: text) }
            readSome(milliseconds: 50)
        }
        return text
    }

    func readSome(milliseconds: Int32) {
        var poll = pollfd(fd: fd, events: Int16(POLLIN), revents: 0)
        guard Glibc.poll(&poll, 1, milliseconds) > 0 else { return }
        var buffer = [UInt8](repeating: 0, count: 65_536)
        guard let count = tls.map({ $0.receive(into: &buffer) }) ?? recv(fd, &buffer, buffer.count, 0) else { return }
        if count <= 0 { isEnded = true } else { received.append(contentsOf: buffer[..<count]) }
    }

    func forget() { received = [] }

    func close() {
        if fd >= 0 { Glibc.close(fd) }
        fd = -1
    }

    /// Ends with a reset instead of a clean end.
    func reset() {
        var linger = linger(l_onoff: 1, l_linger: 0)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<Glibc.linger>.size))
        close()
    }
}

enum Clock {
    static func now() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}
