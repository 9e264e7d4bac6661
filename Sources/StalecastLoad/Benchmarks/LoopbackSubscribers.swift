import Foundation
import Glibc
import Synchronization

/// Event streams whose bytes are read and thrown away by a thread of their own until the server ends them.
final class LoopbackSubscribers: Sendable {
    struct Failure: Error, CustomStringConvertible {
        let call: String
        let code = errno
        var description: String { "\(call): \(String(cString: strerror(code)))" }
    }

    private let count = Atomic<Int>(0)

    /// Connects all, one after the other, and starts the reader.
    init(count: Int, port: Int, target: String) throws {
        let request = Array("GET \(target) HTTP/1.1\r\nHost: bench\r\nAccept: text/event-stream\r\n\r\n".utf8)
        let sockets = try (0..<count).map { _ in try Self.connected(port: port, request: request) }
        Thread.detachNewThread { self.read(sockets) }
    }

    var bytesRead: Int { count.load(ordering: .relaxed) }

    private static func connected(port: Int, request: [UInt8]) throws -> Int32 {
        let fd = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard fd >= 0 else { throw Failure(call: "socket") }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        let status = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(fd, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard status == 0 else { throw Failure(call: "connect") }
        guard send(fd, request, request.count, Int32(MSG_NOSIGNAL)) == request.count else {
            throw Failure(call: "send")
        }
        return fd
    }

    private func read(_ sockets: [Int32]) {
        var waiting = sockets.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        var buffer = [UInt8](repeating: 0, count: 65_536)
        var open = waiting.count
        while open > 0, poll(&waiting, nfds_t(waiting.count), -1) > 0 {
            for place in waiting.indices where waiting[place].revents != 0 {
                let taken = recv(waiting[place].fd, &buffer, buffer.count, 0)
                if taken > 0 {
                    count.add(taken, ordering: .relaxed)
                } else {
                    close(waiting[place].fd)
                    // poll passes over negative descriptors.
                    waiting[place].fd = -1
                    open -= 1
                }
            }
        }
    }
}
