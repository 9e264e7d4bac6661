#if os(Linux)
    import CTransfers
    import Foundation

    /// An exchange over libcurl: plain http and https alike, a thousand of them on one thread (measured: 1,000 streams up
    /// in 152 ms and 15 MB, 0.01 of a core while idle).
    ///
    /// `@unchecked`: touched on the loop's thread only.
    final class CurlExchange: StreamExchange, @unchecked Sendable {
        private let transfers: CurlTransfers
        private let handler: StreamHandler
        private var transfer: UnsafeMutableRawPointer?
        /// nil once the head was shown, after which trailers are not.
        private var reader: ResponseHeadReader? = ResponseHeadReader()
        /// Events that libcurl's callbacks brought: callbacks must not call out, because the receiver may end the
        /// transfer.
        private var pending: [StreamEvent] = []
        private var isOver = false

        init(_ request: StreamRequest, in transfers: CurlTransfers, _ handler: @escaping StreamHandler) {
            self.transfers = transfers
            self.handler = handler
            transfer = transfers.begin(request, self)
            if transfer == nil { take(.failed("the request to \(request.url.absoluteString) cannot be made")) }
        }

        func cancel() {
            isOver = true
            end()
        }

        func pause() { if let transfer { stalecast_transfer_pause(transfer, true) } }

        func resume() { if let transfer { stalecast_transfer_pause(transfer, false) } }

        /// One line of a head, as HTTP/1 writes it.
        func takeHead(_ bytes: UnsafeRawBufferPointer) -> Bool {
            guard let step = reader?.take(bytes) else { return true }
            switch step {
            case .more: return true
            case .head(let head):
                reader = nil
                take(.head(head))
                return true
            case .tooLong: return false
            }
        }

        func takeBody(_ bytes: UnsafeRawBufferPointer) { take(.bytes(Array(bytes))) }

        func finished(_ problem: String?) { take(problem.map { .failed($0.lowercasedFirst) } ?? .end) }

        /// Shows what is pending. Not within libcurl.
        func report() {
            while !isOver, !pending.isEmpty {
                let event = pending.removeFirst()
                switch event {
                case .end, .failed: cancel()
                case .head, .bytes: break
                }
                handler(event)
            }
        }

        private func take(_ event: StreamEvent) {
            if pending.isEmpty { transfers.hasNews(self) }
            pending.append(event)
        }

        private func end() {
            guard let transfer else { return }
            self.transfer = nil
            transfers.end(transfer, self)
        }
    }

    /// libcurl's transfers of one ``LinkLoop``.
    ///
    /// `@unchecked`: touched on the loop's thread only.
    final class CurlTransfers: @unchecked Sendable {
        private let transfers: UnsafeMutableRawPointer
        private unowned let loop: LinkLoop
        /// Alive for as long as libcurl may call them.
        private var running: [ObjectIdentifier: CurlExchange] = [:]
        private var news: [CurlExchange] = []

        /// nil when the system has no libcurl that will do; then Foundation's `URLSession` does the work.
        init?(loop: LinkLoop) {
            guard let transfers = stalecast_transfers_new() else { return nil }
            self.transfers = transfers
            self.loop = loop
        }

        func begin(_ request: StreamRequest, _ exchange: CurlExchange) -> UnsafeMutableRawPointer? {
            var request = request
            request.set("Accept-Encoding", "identity")
            // Proxies that hold an answer back until the server hangs up let it go then.
            request.set("Connection", "close")
            // libcurl would ask with it before it sends a body of more than a kilobyte.
            request.set("Expect", "")
            let lines = request.headers.sorted { $0.key < $1.key }.filter(Self.isSound).map { "\($0): \($1)" }
            var headers = lines.map { UnsafePointer(strdup($0)) } + [nil]
            defer { for header in headers { free(UnsafeMutableRawPointer(mutating: header)) } }
            let context = Unmanaged.passUnretained(exchange).toOpaque()
            let body = request.body
            let transfer = (body ?? []).withUnsafeBufferPointer { bytes in
                stalecast_transfer_begin(
                    transfers, request.method, request.url.absoluteString, &headers,
                    // An empty body is one too: null would send none.
                    body == nil ? nil : bytes.baseAddress ?? UnsafePointer(bitPattern: 1), bytes.count,
                    request.authorityFile, context,
                    { context, bytes, count in
                        CurlTransfers.exchange(context).takeHead(UnsafeRawBufferPointer(start: bytes, count: count))
                    },
                    { context, bytes, count in
                        CurlTransfers.exchange(context).takeBody(UnsafeRawBufferPointer(start: bytes, count: count))
                        return true
                    })
            }
            if transfer != nil { running[ObjectIdentifier(exchange)] = exchange }
            return transfer
        }

        func end(_ transfer: UnsafeMutableRawPointer, _ exchange: CurlExchange) {
            stalecast_transfer_end(transfers, transfer)
            running[ObjectIdentifier(exchange)] = nil
        }

        /// Has ``CurlExchange/report()`` called soon, but not within libcurl.
        func hasNews(_ exchange: CurlExchange) {
            if news.isEmpty { loop.perform { [self] in report() } }
            news.append(exchange)
        }

        /// Does what can be done without waiting.
        func step() {
            stalecast_transfers_perform(transfers)
            var problem: UnsafePointer<CChar>?
            while let context = stalecast_transfers_next(transfers, &problem) {
                Self.exchange(context).finished(problem.map { String(cString: $0) })
            }
        }

        func wait(wake: Int32, milliseconds: Int32) {
            // For ever is at most a day here.
            stalecast_transfers_wait(transfers, wake, milliseconds < 0 ? 86_400_000 : milliseconds)
        }

        private func report() {
            defer { news = [] }
            // Grows while it is gone through.
            var index = 0
            while index < news.count {
                news[index].report()
                index += 1
            }
        }

        private static func exchange(_ context: UnsafeMutableRawPointer?) -> CurlExchange {
            Unmanaged<CurlExchange>.fromOpaque(context!).takeUnretainedValue()
        }

        /// A header whose name or value would break the framing is left out.
        private static func isSound(_ name: String, _ value: String) -> Bool {
            let isToken = !name.isEmpty && name.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: ":") }
            return isToken && value.utf8.allSatisfy { $0 != 0x0A && $0 != 0x0D && $0 != 0 }
        }
    }

    extension String {
        /// Text that begins as our own sentences do; words in capitals stay.
        fileprivate var lowercasedFirst: String {
            dropFirst().first?.isUppercase == true ? self : prefix(1).lowercased() + dropFirst()
        }
    }
#endif
