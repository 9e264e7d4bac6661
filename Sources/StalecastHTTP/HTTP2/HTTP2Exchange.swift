import NIOCore
import NIOHPACK
import NIOHTTP2

/// One stream of an HTTP/2 connection, as an HTTP/1.1 connection with one request: frames become the bytes that
/// ``HTTPConnection`` reads, and what it writes becomes frames. So every rule about heads, bodies, hosts and time holds
/// here too, and is written once.
final class HTTP2Exchange: ChannelDuplexHandler {
    typealias InboundIn = HTTP2Frame.FramePayload
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = HTTP2Frame.FramePayload

    private enum Output { case head, body, ended }

    private var output = Output.head
    private var hasHead = false
    private var hasEnded = false
    /// The request is a HEAD: its answer has no body (RFC 9110 §9.3.2).
    private var isHead = false
    /// The body has no announced length, so it is told in chunks.
    private var isChunked = false
    /// Bytes of answers that the client has not taken.
    private(set) var unwritten = 0
    private let sent: () -> Void

    /// The client took everything that was written.
    var drained: (() -> Void)?
    /// The head is one that HTTP/1.1 cannot say: it is answered, and the rest of the request is dropped.
    var refused: ((GoogleError) -> Void)?

    /// Whether the answer was written to its end, and taken.
    var isAnswered: Bool { output == .ended && unwritten == 0 }

    init(sent: @escaping () -> Void) { self.sent = sent }

    // MARK: Requests

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = context.channel.allocator.buffer(capacity: 256)
        switch unwrapInboundIn(data) {
        case .headers(let frame):
            hasEnded = frame.endStream
            if !hasHead {
                hasHead = true
                let hasLength = frame.headers.contains(name: "content-length")
                isChunked = !frame.endStream && !hasLength
                isHead = frame.headers.first(name: ":method") == "HEAD"
                do throws(GoogleError) {
                    try RequestText.write(frame.headers, isChunked: isChunked, to: &bytes)
                } catch {
                    // An answer says more than a reset, and RFC 9113 §8.1.1 allows it.
                    refused?(error)
                    return
                }
            } else if isChunked {
                // Trailers end the request, and their fields are dropped.
                bytes.writeStaticString("0\r\n\r\n")
            }
        case .data(let frame):
            hasEnded = frame.endStream
            guard case .byteBuffer(let piece) = frame.data else { return }
            append(piece, isLast: frame.endStream, to: &bytes)
        default: return
        }
        if bytes.readableBytes > 0 { context.fireChannelRead(wrapInboundOut(bytes)) }
    }

    private func append(_ piece: ByteBuffer, isLast: Bool, to bytes: inout ByteBuffer) {
        guard isChunked else {
            bytes.writeImmutableBuffer(piece)
            return
        }
        if piece.readableBytes > 0 {
            bytes.writeString(String(piece.readableBytes, radix: 16) + "\r\n")
            bytes.writeImmutableBuffer(piece)
            bytes.writeStaticString("\r\n")
        }
        if isLast { bytes.writeStaticString("0\r\n\r\n") }
    }

    // MARK: Answers

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        var bytes = unwrapOutboundIn(data)
        if output == .head {
            guard let headers = ResponseText.read(&bytes) else {
                preconditionFailure("what is written first is the head of an answer, whole")
            }
            output = .body
            context.write(wrapOutboundOut(.headers(.init(headers: headers))), promise: nil)
        }
        guard output == .body, !isHead, bytes.readableBytes > 0 else {
            promise?.succeed()
            return
        }
        sent()
        unwritten += bytes.readableBytes
        // In slices with a promise each: the stall rule must see that a slow client takes some of a long answer.
        while let slice = bytes.readSlice(length: min(Self.sliceBytes, bytes.readableBytes)), slice.readableBytes > 0 {
            let count = slice.readableBytes
            let done = (bytes.readableBytes == 0 ? promise : nil) ?? context.eventLoop.makePromise()
            done.futureResult.assumeIsolated().whenSuccess { [self] in
                unwritten -= count
                if unwritten == 0 { drained?() }
            }
            context.write(wrapOutboundOut(.data(.init(data: .byteBuffer(slice)))), promise: done)
        }
    }

    /// Bytes that are written with one promise: HTTP/2's default for the largest frame.
    private static let sliceBytes = 16_384

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        guard mode == .output, output == .body else {
            // The rest of the request is not wanted, and the answer before is good (RFC 9113 §8.1). A close alone says
            // CANCEL.
            if output == .ended, !hasEnded {
                context.writeAndFlush(wrapOutboundOut(.rstStream(.noError)), promise: nil)
            }
            return context.close(mode: .all, promise: promise)
        }
        output = .ended
        let end = HTTP2Frame.FramePayload.Data(data: .byteBuffer(ByteBuffer()), endStream: true)
        context.writeAndFlush(wrapOutboundOut(.data(end)), promise: promise)
    }
}

/// The head of a request in HTTP/1.1's spelling.
enum RequestText {
    /// - Throws: the answer to a head that HTTP/1.1 cannot say: a name or value with control characters or with blanks
    ///   around it, a field about the connection.
    static func write(
        _ headers: HPACKHeaders, isChunked: Bool, to bytes: inout ByteBuffer
    ) throws(GoogleError) {
        guard let method = headers.first(name: ":method"), RequestHead.isToken(method.utf8) else {
            throw .malformed("The request's method is not a token.")
        }
        // CONNECT has no path (RFC 9113 §8.5).
        guard let target = headers.first(name: ":path") ?? headers.first(name: ":authority"),
            target.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F })
        else { throw .malformed("The request's target must be percent-encoded ASCII.") }
        guard isOwn(target, method) else { throw .malformed("The request's target must begin with a slash.") }
        bytes.writeString("\(method) \(target) HTTP/1.1\r\n")
        let authority = headers.first(name: ":authority")
        if let authority {
            guard isValue(authority) else { throw .malformed("The request's host is not valid.") }
            bytes.writeString("Host: \(authority)\r\n")
        }
        for (name, value, _) in headers where !name.hasPrefix(":") {
            try check(name, value)
            // A Host that repeats the authority is written once.
            if name == "host", value == authority { continue }
            bytes.writeString("\(name): \(value)\r\n")
        }
        bytes.writeString(isChunked ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n")
    }

    private static func check(_ name: String, _ value: String) throws(GoogleError) {
        guard RequestHead.isToken(name.utf8) else { throw .malformed("The name of a header field is not a token.") }
        if ofConnection.contains(name) { throw .malformed("HTTP/2 has no header field \(name).") }
        guard isValue(value) else {
            throw .malformed("The header field \(name) has control characters, or blanks around its value.")
        }
    }

    /// RFC 9113 §8.2.2.
    private static let ofConnection: Set<String> = [
        "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade",
    ]

    /// A path of this server's, or what only CONNECT and OPTIONS have: no other form of a target is HTTP/2's.
    private static func isOwn(_ target: String, _ method: String) -> Bool {
        target.utf8.first == UInt8(ascii: "/") || method == "CONNECT" || (target == "*" && method == "OPTIONS")
    }

    /// RFC 9113 §8.2.1: HTTP/1.1 trims blanks around a value, so that they must not come in here.
    private static func isValue(_ text: String) -> Bool {
        func isBlank(_ byte: UInt8?) -> Bool { byte == 0x20 || byte == 0x09 }
        return !isBlank(text.utf8.first) && !isBlank(text.utf8.last)
            && text.utf8.allSatisfy { $0 == 0x09 || ($0 >= 0x20 && $0 != 0x7F) }
    }
}

/// The head of an answer of ours, as HTTP/2 has it.
enum ResponseText {
    /// Takes the head off `bytes`; nil when they do not begin with a whole one.
    static func read(_ bytes: inout ByteBuffer) -> HPACKHeaders? {
        guard let (headers, count) = bytes.withUnsafeReadableBytes({ parse($0) }) else { return nil }
        bytes.moveReaderIndex(forwardBy: count)
        return headers
    }

    /// Reads bytes and not text: splitting a text into lines took a quarter of a fetch's CPU.
    private static func parse(_ bytes: UnsafeRawBufferPointer) -> (HPACKHeaders, count: Int)? {
        var headers = HPACKHeaders()
        var start = 0
        while let end = endOfLine(in: bytes, from: start) {
            let line = UnsafeRawBufferPointer(rebasing: bytes[start..<end])
            start = end + 2
            if line.isEmpty { return headers.isEmpty ? nil : (headers, start) }
            if headers.isEmpty {
                let status = line.drop { $0 != 0x20 }.dropFirst().prefix { $0 != 0x20 }
                if status.isEmpty { return nil }
                headers.add(name: ":status", value: text(status))
                continue
            }
            guard let colon = line.firstIndex(of: 0x3A) else { return nil }
            let name = text(line[..<colon]).lowercased()
            // Frames say both, and the fields are forbidden (RFC 9113 §8.2.2).
            guard name != "connection", name != "transfer-encoding" else { continue }
            headers.add(name: name, value: text(trimmed(line[(colon + 1)...])))
        }
        return nil
    }

    private static func endOfLine(in bytes: UnsafeRawBufferPointer, from start: Int) -> Int? {
        var start = start
        while let end = bytes[start...].firstIndex(of: 0x0D) {
            if end + 1 < bytes.count, bytes[end + 1] == 0x0A { return end }
            start = end + 1
        }
        return nil
    }

    private static func trimmed(_ bytes: Slice<UnsafeRawBufferPointer>) -> Slice<UnsafeRawBufferPointer> {
        var bytes = bytes
        while let first = bytes.first, first == 0x20 || first == 0x09 { bytes.removeFirst() }
        while let last = bytes.last, last == 0x20 || last == 0x09 { bytes.removeLast() }
        return bytes
    }

    private static func text(_ bytes: Slice<UnsafeRawBufferPointer>) -> String {
        String(decoding: UnsafeRawBufferPointer(rebasing: bytes), as: UTF8.self)
    }
}
