import Foundation
import StalecastWire

/// Just enough of an HTTP server for a harness on the same machine: one connection after the other, one request each.
final class ContractServer: Sendable {
    struct Request: Sendable {
        var method: String
        var path: String
        var body: [UInt8]
    }

    struct Answer: Sendable {
        var status: Int
        var headers: [String: String] = [:]
        var body: [UInt8] = []
        /// The server ends after it.
        var isLast = false

        static let notFound = Answer(status: 404)

        static func json(_ status: Int, _ value: JSONValue) -> Answer {
            Answer(status: status, headers: ["Content-Type": "application/json"], body: value.encoded())
        }

        fileprivate var bytes: [UInt8] {
            var lines = ["HTTP/1.1 \(status) Answer", "Content-Length: \(body.count)", "Connection: close"]
            lines += headers.map { "\($0.key): \($0.value)" }
            return Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8) + body
        }
    }

    /// Reason why there is no listener; `description` says what the system said.
    struct CannotListen: Error, CustomStringConvertible { let description: String }

    /// The port really bound.
    let port: Int
    private let listener: Int32
    private let respond: @Sendable (Request) -> Answer

    /// - Parameter port: 0 takes a free one.
    init(port: UInt16, _ respond: @escaping @Sendable (Request) -> Answer) throws {
        #if canImport(Darwin)
            let listener = socket(AF_INET, SOCK_STREAM, 0)
        #else
            let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        #endif
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        var on: Int32 = 1
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<Int32>.size))
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, length) == 0 && listen(listener, 64) == 0 && getsockname(listener, $0, &length) == 0
            }
        }
        guard isBound else {
            throw CannotListen(description: "cannot listen on port \(port): \(String(cString: strerror(errno)))")
        }
        self.listener = listener
        self.port = Int(UInt16(bigEndian: address.sin_port))
        self.respond = respond
    }

    /// Serves until an answer is the last.
    func run() {
        var isOver = false
        while !isOver {
            let descriptor = accept(listener, nil, nil)
            guard descriptor >= 0 else { return }
            if let request = Self.read(descriptor) {
                let answer = respond(request)
                Self.send(answer.bytes, to: descriptor)
                isOver = answer.isLast
            }
            close(descriptor)
        }
        close(listener)
    }

    /// nil when the peer is gone before its request is complete.
    private static func read(_ descriptor: Int32) -> Request? {
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            if let request = parse(bytes) { return request }
            let count = recv(descriptor, &piece, piece.count, 0)
            guard count > 0 else { return nil }
            bytes += piece[..<count]
        }
    }

    /// nil while the request is incomplete.
    private static func parse(_ bytes: [UInt8]) -> Request? {
        guard let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) else { return nil }
        let lines = String(decoding: bytes[..<end.lowerBound], as: UTF8.self).components(separatedBy: "\r\n")
        let words = (lines.first ?? "").split(separator: " ")
        let lengths = lines.dropFirst().filter { $0.lowercased().hasPrefix("content-length:") }
        let length = lengths.first.flatMap { Int($0.dropFirst(15).filter { $0 != " " }) } ?? 0
        guard words.count >= 2, bytes.count - end.upperBound >= length else { return nil }
        return Request(
            method: String(words[0]), path: String(words[1].prefix { $0 != "?" }),
            body: Array(bytes[end.upperBound..<end.upperBound + length]))
    }

    private static func send(_ bytes: [UInt8], to descriptor: Int32) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Foundation.send(descriptor, $0.baseAddress, $0.count, 0) }
            guard count > 0 else { return }
            rest = rest.dropFirst(count)
        }
    }
}
