import Foundation

/// An exchange over a TCP connection of its own, in plain HTTP/1.1.
///
/// `@unchecked`: touched on the loop's thread only.
final class SocketExchange: StreamExchange, @unchecked Sendable {
    /// How long one of several addresses may take to accept, in seconds; the last has no limit here.
    private static let addressLimit: TimeInterval = 5
    /// Reads before other connections get their turn.
    private static let readsInTurn = 16

    private enum Phase {
        case resolving
        case connecting(Int32, watch: Int, timer: Int?)
        case sending(Int32, watch: Int)
        case reading(Int32, watch: Int)
        /// Reading was put off.
        case paused(Int32)
        case ended
    }

    private let loop: LinkLoop
    private let handler: StreamExchanges.Handler
    private var phase = Phase.resolving
    private var addresses: ArraySlice<SocketAddress> = []
    private var reader = ResponseReader()
    private var outgoing: ArraySlice<UInt8>
    /// ``pause()`` came before there was anything to read.
    private var isPauseWanted = false

    init(_ request: StreamRequest, on loop: LinkLoop, _ handler: @escaping StreamExchanges.Handler) {
        self.loop = loop
        self.handler = handler
        outgoing = RequestEncoder.encode(request)[...]
        let host = RequestEncoder.host(of: request.url)
        NameLookups.shared.find(host, port: request.url.port ?? 80, on: loop) { [weak self] in self?.resolved($0) }
    }

    func cancel() { end() }

    func pause() {
        isPauseWanted = true
        guard case .reading(let descriptor, let watch) = phase else { return }
        loop.unwatch(watch)
        phase = .paused(descriptor)
    }

    func resume() {
        isPauseWanted = false
        if case .paused(let descriptor) = phase { read(descriptor) }
    }

    private func end() {
        switch phase {
        case .resolving, .ended: break
        case .connecting(let descriptor, let watch, let timer):
            loop.cancelTimer(timer)
            loop.unwatch(watch)
            close(descriptor)
        case .sending(let descriptor, let watch), .reading(let descriptor, let watch):
            loop.unwatch(watch)
            close(descriptor)
        case .paused(let descriptor): close(descriptor)
        }
        phase = .ended
    }

    private func fail(_ reason: String) {
        if case .ended = phase { return }
        end()
        handler(.failed(reason))
    }

    // MARK: Connecting

    private func resolved(_ result: NameLookups.Outcome) {
        guard case .resolving = phase else { return }
        switch result {
        case .success(let addresses):
            self.addresses = addresses[...]
            connectNext("the name has no address")
        case .failure(let unknown): fail(unknown.description)
        }
    }

    private func connectNext(_ lastProblem: String) {
        guard let address = addresses.popFirst() else { return fail(lastProblem) }
        guard let descriptor = address.connecting() else { return connectNext(Self.text(errno)) }
        let watch = loop.watch(descriptor, forWriting: true) { [weak self] _ in self?.connected() }
        let timer = addresses.isEmpty ? nil : loop.after(Self.addressLimit) { [weak self] in self?.abandonAddress() }
        phase = .connecting(descriptor, watch: watch, timer: timer)
    }

    private func abandonAddress() {
        guard case .connecting = phase else { return }
        end()
        phase = .resolving
        connectNext("no answer to connecting")
    }

    private func connected() {
        guard case .connecting(let descriptor, let watch, let timer) = phase else { return }
        let problem = SocketAddress.pendingError(descriptor)
        guard problem == 0 else {
            end()
            phase = .resolving
            return connectNext(Self.text(problem))
        }
        loop.cancelTimer(timer)
        loop.unwatch(watch)
        let sending = loop.watch(descriptor, forWriting: true) { [weak self] _ in self?.send() }
        phase = .sending(descriptor, watch: sending)
        send()
    }

    // MARK: Sending and reading

    private func send() {
        guard case .sending(let descriptor, let watch) = phase else { return }
        while !outgoing.isEmpty {
            #if canImport(Darwin)
                let flags: Int32 = 0
            #else
                let flags = Int32(MSG_NOSIGNAL)
            #endif
            let count = outgoing.withUnsafeBytes { Foundation.send(descriptor, $0.baseAddress, $0.count, flags) }
            if count < 0, errno == EINTR { continue }
            if count < 0, errno == EAGAIN { return }
            // A server may answer and close without reading all; then there is something to read.
            guard count > 0 else { break }
            outgoing = outgoing.dropFirst(count)
        }
        loop.unwatch(watch)
        if isPauseWanted { phase = .paused(descriptor) } else { read(descriptor) }
    }

    private func read(_ descriptor: Int32) {
        let watch = loop.watch(descriptor) { [weak self] _ in self?.receive() }
        phase = .reading(descriptor, watch: watch)
    }

    private func receive() {
        for _ in 0..<Self.readsInTurn {
            guard case .reading(let descriptor, _) = phase else { return }
            var bytes: [UInt8] = []
            let count = loop.read(descriptor) { bytes = Array($0) }
            if count < 0, errno == EINTR { continue }
            if count < 0, errno == EAGAIN { return }
            guard count >= 0 else { return fail(Self.text(errno)) }
            do throws(ResponseReader.Malformed) {
                report(try count == 0 ? reader.closed() : reader.receive(bytes))
            } catch {
                return fail(error.description)
            }
            if count == 0 { return fail("the server closed the connection") }
        }
    }

    private func report(_ events: [StreamEvent]) {
        for event in events {
            if case .ended = phase { return }
            if event == .end { end() }
            handler(event)
        }
    }

    private static func text(_ error: Int32) -> String { String(cString: strerror(error)).lowercased() }
}
