import Foundation
import Synchronization

/// A server on 127.0.0.1 whose every connection is played by hand: a test, or its script, sends bytes when it likes.
final class StreamServer: Sendable {
    /// One connection and the one request it brought.
    final class Peer: Sendable {
        /// `GET /path HTTP/1.1`.
        let line: String
        /// Header fields by lower-case name.
        let headers: [String: String]
        let body: String
        private let descriptor: Int32
        private let isClosed = Mutex(false)

        fileprivate init(_ descriptor: Int32, _ head: [String], _ body: String) {
            self.descriptor = descriptor
            self.body = body
            line = head.first ?? ""
            let fields = head.dropFirst().map { $0.split(separator: ":", maxSplits: 1) }.filter { $0.count == 2 }
            headers = Dictionary(
                fields.map { ($0[0].lowercased(), $0[1].trimmingCharacters(in: .whitespaces)) }
            ) { first, _ in first }
        }

        deinit { close() }

        var path: String { line.split(separator: " ").dropFirst().first.map(String.init) ?? "" }

        /// Sends bytes as they are; false when the client is gone.
        @discardableResult
        func send(_ bytes: some Collection<UInt8>) -> Bool {
            var rest = Array(bytes)[...]
            while !rest.isEmpty {
                let count = rest.withUnsafeBytes {
                    Foundation.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
                }
                guard count > 0 else { return false }
                rest = rest.dropFirst(count)
            }
            return true
        }

        @discardableResult
        func send(_ text: String) -> Bool { send(Array(text.utf8)) }

        /// Sends a text again and again until the client does not read for a second, or `limit` bytes are sent.
        ///
        /// - Returns: the bytes sent.
        func sendUntilStalled(_ text: String, limit: Int) async -> Int {
            // Blocks, so not on one of the pool's threads, which other tests need.
            await withCheckedContinuation { continuation in
                Thread.detachNewThread { continuation.resume(returning: self.sendBlocking(text, limit)) }
            }
        }

        private func sendBlocking(_ text: String, _ limit: Int) -> Int {
            let bytes = Array(text.utf8)
            var sent = 0
            while sent < limit {
                var poll = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                guard Foundation.poll(&poll, 1, 1000) == 1 else { break }
                let count = bytes[(sent % bytes.count)...].withUnsafeBytes {
                    Foundation.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL | MSG_DONTWAIT))
                }
                guard count > 0 else { break }
                sent += count
            }
            return sent
        }

        /// The head of an event stream that ends with the connection.
        func openStream(_ text: String = "", type: String = "text/event-stream") {
            send("HTTP/1.1 200 OK\r\nContent-Type: \(type)\r\n\r\n\(text)")
        }

        /// A whole answer, after which the connection is closed.
        func answer(_ status: Int, _ headers: [String] = [], _ body: String = "") {
            let head = ["HTTP/1.1 \(status) Whatever", "Content-Length: \(body.utf8.count)"] + headers
            send(head.joined(separator: "\r\n") + "\r\n\r\n" + body)
            close()
        }

        func answer(json: String) { answer(200, ["Content-Type: application/json"], json) }

        func close() {
            isClosed.withLock { isClosed in
                if !isClosed { Foundation.close(descriptor) }
                isClosed = true
            }
        }

        /// Closes so that the client sees a reset.
        func reset() {
            var hard = linger(l_onoff: 1, l_linger: 0)
            setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &hard, socklen_t(MemoryLayout<linger>.size))
            close()
        }

        /// Whether the client has closed its end.
        var isAbandoned: Bool {
            var byte: UInt8 = 0
            return isClosed.withLock { $0 }
                || recv(descriptor, &byte, 1, Int32(MSG_DONTWAIT) | Int32(MSG_PEEK)) == 0
        }

        /// Another file may have the number of a closed descriptor by now.
        fileprivate func end() {
            isClosed.withLock { isClosed in
                if !isClosed { shutdown(descriptor, Int32(SHUT_RDWR)) }
            }
        }
    }

    struct CannotListen: Error {}

    let port: Int
    private let listener: Int32
    private let arrived = Mutex<[Peer]>([])
    private let script: @Sendable (Peer, Int) -> Void

    var url: URL { URL(string: "http://127.0.0.1:\(port)")! }
    /// Peers in the order of their requests.
    var peers: [Peer] { arrived.withLock { $0 } }

    /// - Parameter script: called with each request and how many came before it, on one thread after the other.
    init(_ script: @escaping @Sendable (Peer, Int) -> Void = { _, _ in }) throws {
        self.script = script
        listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let listener = listener
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, length) == 0 && listen(listener, 1024) == 0
                    && getsockname(listener, $0, &length) == 0
            }
        }
        guard isBound else { throw CannotListen() }
        port = Int(UInt16(bigEndian: address.sin_port))
        Thread.detachNewThread { self.accept() }
    }

    /// Refuses connections from now on and ends those there are.
    func stop() {
        shutdown(listener, Int32(SHUT_RDWR))
        for peer in peers { peer.end() }
    }

    /// Runs `body` with a server, and stops that.
    static func serving<Value>(
        _ script: @escaping @Sendable (Peer, Int) -> Void = { _, _ in },
        _ body: (StreamServer) async throws -> Value
    ) async throws -> Value {
        let server = try StreamServer(script)
        defer { server.stop() }
        return try await body(server)
    }

    private func accept() {
        // Only here: if `stop` closed it, another server could have its number while this thread still accepts from it.
        defer { close(listener) }
        while true {
            let descriptor = Foundation.accept(listener, nil, nil)
            guard descriptor >= 0 else { return }
            guard let peer = Self.read(descriptor) else { continue }
            let count = arrived.withLock { peers in
                peers.append(peer)
                return peers.count - 1
            }
            script(peer, count)
        }
    }

    private static func read(_ descriptor: Int32) -> Peer? {
        var bytes: [UInt8] = []
        while true {
            if let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) {
                let head = String(decoding: bytes[..<end.lowerBound], as: UTF8.self).components(separatedBy: "\r\n")
                let length =
                    head.compactMap { line in
                        line.lowercased().hasPrefix("content-length:")
                            ? Int(line.dropFirst(15).drop { $0 == " " }) : nil
                    }.first ?? 0
                if bytes.count >= end.upperBound + length {
                    return Peer(descriptor, head, String(decoding: bytes[end.upperBound...], as: UTF8.self))
                }
            }
            var piece = [UInt8](repeating: 0, count: 1 << 16)
            let count = recv(descriptor, &piece, piece.count, 0)
            guard count > 0 else {
                close(descriptor)
                return nil
            }
            bytes += piece[..<count]
        }
    }
}
