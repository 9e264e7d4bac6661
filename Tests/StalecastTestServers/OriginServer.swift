import Foundation
import Synchronization

/// A server on 127.0.0.1 that answers as a test says, one thread per connection; gone when `stop` was called.
package final class OriginServer: Sendable {
    package struct Request: Sendable {
        package let method: String
        package let target: String
        /// Header fields by lower-case name.
        package let headers: [String: String]
        package let body: String
    }

    /// Bytes that are sent, and how.
    package struct Reply: Sendable {
        package var bytes: [UInt8]
        /// Closes after it; else the connection goes on.
        package var closes = false
        /// Sent over and over after `bytes`, until this many bytes are out or the peer is gone.
        package var flood = 0
        /// Keeps the connection open without a byte after `bytes`, until the server stops.
        package var hangs = false

        package init(bytes: [UInt8], closes: Bool = false, flood: Int = 0, hangs: Bool = false) {
            self.bytes = bytes
            self.closes = closes
            self.flood = flood
            self.hangs = hangs
        }
    }

    package let port: Int
    private let listener: Int32
    private let answer: @Sendable (Request) -> Reply
    private let state = Mutex(State())

    private struct State {
        var requests: [Request] = []
        var open: Set<Int32> = []
        var isStopped = false
        var flooded = 0
        var connections = 0
    }

    package var url: String { "http://127.0.0.1:\(port)" }
    /// Whether a connection is open, so that a request may still come over it.
    package var isConnected: Bool { state.withLock { !$0.open.isEmpty } }
    /// Connections accepted so far.
    package var connections: Int { state.withLock { $0.connections } }
    package var requests: [Request] { state.withLock { $0.requests } }
    /// Bytes of floods that were taken by the peer's side.
    package var flooded: Int { state.withLock { $0.flooded } }

    /// Serves while `body` runs.
    package static func serving<Value>(
        _ answer: @escaping @Sendable (Request) -> Reply, _ body: (OriginServer) async throws -> Value
    ) async throws -> Value {
        let server = try OriginServer(answer)
        defer { server.stop() }
        return try await body(server)
    }

    private struct CannotListen: Error {}

    private init(_ answer: @escaping @Sendable (Request) -> Reply) throws {
        self.answer = answer
        listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let listener = listener
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, length) == 0 && listen(listener, 64) == 0 && getsockname(listener, $0, &length) == 0
            }
        }
        guard isBound else { throw CannotListen() }
        port = Int(UInt16(bigEndian: address.sin_port))
        Thread.detachNewThread { self.accept() }
    }

    private func stop() {
        state.withLock { state in
            state.isStopped = true
            for descriptor in state.open { shutdown(descriptor, Int32(SHUT_RDWR)) }
            // Under the lock: the thread that accepts closes the listener once it has seen `isStopped`.
            shutdown(listener, Int32(SHUT_RDWR))
        }
    }

    private func accept() {
        // Only here: if `stop` closed it, another server could have its number while this thread still accepts from it.
        defer { close(listener) }
        while true {
            let descriptor = Foundation.accept(listener, nil, nil)
            guard descriptor >= 0 else { return }
            let isWanted = state.withLock { state in
                if !state.isStopped {
                    state.open.insert(descriptor)
                    state.connections += 1
                }
                return !state.isStopped
            }
            guard isWanted else {
                close(descriptor)
                return
            }
            Thread.detachNewThread {
                self.serve(descriptor)
                _ = self.state.withLock { $0.open.remove(descriptor) }
                close(descriptor)
            }
        }
    }

    private func serve(_ descriptor: Int32) {
        var buffer: [UInt8] = []
        while let request = read(descriptor, &buffer) {
            state.withLock { $0.requests.append(request) }
            let reply = answer(request)
            guard send(descriptor, reply.bytes) else { return }
            if reply.flood > 0 { return flood(descriptor, reply.flood) }
            if reply.hangs { return waitForEnd(descriptor) }
            if reply.closes { return }
        }
    }

    private func flood(_ descriptor: Int32, _ bytes: Int) {
        let block = [UInt8](repeating: 0x78, count: 1 << 16)
        for _ in 0..<(bytes >> 16) {
            guard send(descriptor, block) else { return }
            state.withLock { $0.flooded += block.count }
        }
    }

    private func waitForEnd(_ descriptor: Int32) {
        var byte: UInt8 = 0
        while recv(descriptor, &byte, 1, 0) > 0 {}
    }

    private func send(_ descriptor: Int32, _ bytes: [UInt8]) -> Bool {
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...].withUnsafeBytes {
                Foundation.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return false }
            sent += count
        }
        return true
    }

    private func read(_ descriptor: Int32, _ buffer: inout [UInt8]) -> Request? {
        let blank = Array("\r\n\r\n".utf8)
        while true {
            if let end = buffer.firstRange(of: blank) {
                let lines = String(decoding: buffer[..<end.lowerBound], as: UTF8.self).components(separatedBy: "\r\n")
                var headers: [String: String] = [:]
                for line in lines.dropFirst() {
                    let parts = line.split(separator: ":", maxSplits: 1)
                    headers[parts[0].lowercased()] =
                        parts.count > 1 ? parts[1].trimmingCharacters(in: .whitespaces) : ""
                }
                let length = headers["content-length"].flatMap { Int($0) } ?? 0
                if buffer.count >= end.upperBound + length {
                    let body = buffer[end.upperBound..<end.upperBound + length]
                    let words = lines[0].split(separator: " ")
                    buffer.removeFirst(end.upperBound + length)
                    return Request(
                        method: String(words[0]), target: String(words[1]), headers: headers,
                        body: String(decoding: body, as: UTF8.self))
                }
            }
            var piece = [UInt8](repeating: 0, count: 1 << 16)
            let count = recv(descriptor, &piece, piece.count, 0)
            guard count > 0 else { return nil }
            buffer += piece[..<count]
        }
    }
}

extension OriginServer.Reply {
    package static func status(_ status: Int, _ headers: [String] = [], _ body: String = "", closes: Bool = false)
        -> Self
    {
        var lines = ["HTTP/1.1 \(status) Whatever"] + headers
        if status != 304, status != 204 { lines.append("Content-Length: \(body.utf8.count)") }
        return Self(bytes: Array((lines.joined(separator: "\r\n") + "\r\n\r\n" + body).utf8), closes: closes)
    }

    package static func json(_ body: String, _ headers: [String] = []) -> Self {
        status(200, ["Content-Type: application/json"] + headers, body)
    }

    package static func raw(_ text: String, closes: Bool = true) -> Self {
        Self(bytes: Array(text.utf8), closes: closes)
    }
}
