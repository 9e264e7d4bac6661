import CLinux
import Foundation
import StalecastWire

/// A small HTTP server on one thread: takes requests of webhooks, one after the other per connection, and answers.
final class WebhookReceiver {
    /// `host:port` as bound.
    let address: String
    private let listener: Int32
    private var pending: [Int32: [UInt8]] = [:]

    private static let backlog: Int32 = 64
    private static let readBytes = 64 << 10

    /// - Parameter place: `host:port`, an IPv4 address and a port, 0 for any.
    /// - Throws: ``CommandFailure`` when it cannot listen there.
    init(_ place: String) throws(CommandFailure) {
        let parts = place.split(separator: ":")
        guard parts.count == 2, let port = UInt16(parts[1]) else {
            throw CommandFailure(.usage, "\"\(place)\" is not an address such as 127.0.0.1:9000")
        }
        let host = String(parts[0])
        listener = stalecast_listen(host, port, false, false, Self.backlog, 0, 0)
        guard listener >= 0 else {
            throw CommandFailure(
                .refused, "cannot listen on \(place): \(String(cString: strerror(errno)))",
                advice: "--listen 127.0.0.1:0 takes a free port.")
        }
        address = "\(host):\(stalecast_local_port(listener))"
    }

    deinit {
        for descriptor in pending.keys { close(descriptor) }
        close(listener)
    }

    /// Function that answers a request, and says whether another one is wanted.
    typealias Handler = (ReceivedRequest) async throws(CommandFailure) -> (answer: [UInt8], goesOn: Bool)

    /// Serves until `handle` wants no more. Others wait while it does its work.
    func serve(_ handle: Handler) async throws(CommandFailure) {
        while true {
            var ready = ([listener] + pending.keys).map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
            guard poll(&ready, nfds_t(ready.count), -1) > 0 else { continue }
            for each in ready where each.revents != 0 {
                if each.fd == listener { accept() } else if try await !receive(each.fd, handle) { return }
            }
        }
    }

    private func accept() {
        var peer: UInt64 = 0
        let descriptor = stalecast_accept(listener, &peer)
        if descriptor >= 0 { pending[descriptor] = [] }
    }

    /// False when it is enough.
    private func receive(_ descriptor: Int32, _ handle: Handler) async throws(CommandFailure) -> Bool {
        var buffer = [UInt8](repeating: 0, count: Self.readBytes)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        if count < 0, errno == EAGAIN || errno == EINTR { return true }
        guard count > 0, var bytes = pending[descriptor] else {
            end(descriptor)
            return true
        }
        bytes += buffer[..<count]
        // One read may bring several requests: clients may pipeline them (RFC 9112, section 9.3.2).
        while let (request, length) = ReceivedRequest.read(bytes) {
            bytes.removeFirst(length)
            let (answer, goesOn) = try await handle(request)
            _ = answer.withUnsafeBytes { stalecast_send(descriptor, $0.baseAddress, $0.count) }
            if !goesOn { return false }
        }
        if bytes.count > ReceivedRequest.maxBytes { end(descriptor) } else { pending[descriptor] = bytes }
        return true
    }

    private func end(_ descriptor: Int32) {
        close(descriptor)
        pending[descriptor] = nil
    }
}

struct ReceivedRequest: Equatable {
    let method: String
    let target: String
    /// Header fields by lower-case name; of several the last.
    let headers: [String: String]
    let body: [UInt8]

    /// Longest request; the daemon sends no longer ones.
    static let maxBytes = 1 << 20

    /// The first request in `bytes` and its length; nil while it is not whole.
    static func read(_ bytes: [UInt8]) -> (ReceivedRequest, length: Int)? {
        guard let start = bytes.firstRange(of: "\r\n\r\n".utf8)?.upperBound else { return nil }
        let lines = String(decoding: bytes[..<start], as: UTF8.self).components(separatedBy: "\r\n")
        let words = lines[0].split(separator: " ", maxSplits: 2)
        var headers: [String: String] = [:]
        for line in lines.dropFirst() {
            let parts = line.split(separator: ":", maxSplits: 1)
            guard parts.count == 2 else { continue }
            headers[parts[0].lowercased()] = parts[1].trimmingCharacters(in: .whitespaces)
        }
        let end = start + (headers["content-length"].flatMap { Int($0) }.map { min(max($0, 0), maxBytes) } ?? 0)
        guard end <= bytes.count else { return nil }
        let request = ReceivedRequest(
            method: String(words.first ?? ""), target: words.count > 1 ? String(words[1]) : "", headers: headers,
            body: Array(bytes[start..<end]))
        return (request, end)
    }

    /// Consent to a CloudEvents sender that asks for it; nil for another request.
    var consent: [UInt8]? {
        guard method == "OPTIONS", let origin = headers["webhook-request-origin"] else { return nil }
        return Self.answer(200, "WebHook-Allowed-Origin: \(origin)\r\nWebHook-Allowed-Rate: *\r\n")
    }

    /// Answer to a request: consent where it is asked for, else `status`.
    func answer(status: Int) -> [UInt8] {
        if let consent { return consent }
        let json = JSONValue.ifValid(body)  // anything else is no question
        if json?["type"]?.string == "webhook.verification", let text = json?["data"]?["challenge"] {
            return Self.answer(
                200, "Content-Type: application/json\r\n", JSONValue.object(["challenge": text]).encoded())
        }
        return Self.answer(status)
    }

    static func answer(_ status: Int, _ fields: String = "", _ body: [UInt8] = []) -> [UInt8] {
        let length = status == 204 || status == 304 ? "" : "Content-Length: \(body.count)\r\n"
        return Array("HTTP/1.1 \(status) As asked\r\n\(fields)\(length)\r\n".utf8) + body
    }
}
