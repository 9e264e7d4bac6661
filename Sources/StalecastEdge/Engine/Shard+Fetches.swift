import CLinux
import NIOCore
import StalecastHTTP
import StalecastHub
import StalecastWire

/// Requests that are answered at once: fetches and the state.
extension Shard {
    // MARK: Fetches

    /// Answers a fetch, or gives it to the Front: that refuses and counts refusals, waits for the log of a cluster, and
    /// makes the answers that take so long that streams would have to wait.
    func serve(_ head: FetchHead, _ index: Int32, _ bytes: UnsafeBufferPointer<UInt8>, _ isVerified: Bool) {
        let slot = slots[index]
        slot.pointee.input.waits = 0
        let bodyBytes = bytes.count - head.length
        guard !awaitsCursors, !isDraining, head.length <= settings.connections.maxHeadBytes,
            bodyBytes <= settings.maxBodyBytes,
            let (scope, flags) = target(of: head, String(decoding: bytes[head.path], as: UTF8.self)[...])
        else { return giveToFront(index) }
        believe(index, head.forwarded)
        // What the backend is asked with was not read.
        if settings.access.isForHook(head.credentials) { return giveToFront(index) }
        guard !slot.pointee.input.isRefused, mayFetch(head, from: scope.scope, slot) else {
            if !isVerified, verifyToken(index, head.credentials) { return }
            return giveToFront(index)
        }
        let body = UnsafeBufferPointer(rebasing: bytes[head.length...])
        let address = slot.pointee.client.address
        let answer =
            if let flags {
                scope.flagsAtOnce(body, flags, address: address)
            } else {
                scope.answerAtOnce(body, ifNoneMatch: head.ifNoneMatch, address: address)
            }
        guard var answer else { return giveToFront(index) }
        answer.bytes = answer.bytes.coded(admitsGzip: head.admitsGzip)
        take(bytes.count, of: slot)
        audience.tally.fetches.count(answer)
        write(answer.bytes, to: index, head)
        hub.propagation.fetched(
            answer.client, answer.scope, answer.version, seconds: secondsInTurn,
            address: (address, !stalecast_is_loopback_key(address)))
    }

    /// The scope of a path as clients spell it, and what is asked of it besides where that is flags.
    private func target(of head: FetchHead, _ path: Substring) -> (FetchScope, FlagRequest?)? {
        if let scope = served.scope(atPath: path) { return (scope, nil) }
        guard let (scope, key) = served.flags(atPath: path) else { return nil }
        let request = FlagRequest(key: key, ifNoneMatch: head.ifNoneMatch, query: head.query[...]) { [self] client in
            settings.eventStreams(of: scope.scope, on: board, for: head.credentials, as: client)
        }
        return (scope, request)
    }

    private func mayFetch(
        _ head: FetchHead, from scope: Scope, _ slot: UnsafeMutablePointer<StreamSlot>
    ) -> Bool {
        if settings.access.mode == .off, settings.apiKeys.isEmpty { return true }
        var head = head
        // See ``FrontRequest/credentials``.
        if settings.access.takesCertificates, head.origin == nil, case .session(let tls) = slot.pointee.cover {
            head.show(tls.clientCertificate)
        }
        return settings.mayFetch(head.credentials, from: scope)
    }

    private func write(_ bytes: FetchBytes, to index: Int32, _ head: FetchHead) {
        let slot = slots[index]
        audience.wheel.remove(index, in: slots)
        slot.pointee.request.isHTTP11 = true
        slot.pointee.request.keepAlive = head.keepAlive
        // What ends a silent connection from here on is that it is idle.
        slot.pointee.times.deadline = max(1, audience.wheel.now)
        if bytes.body.readableBytes > StreamEngine.sendBuffer { makeRoom(true, on: slot) }
        let ending = fetchEnding(origin: head.origin, keepAlive: head.keepAlive)
        guard slot.pointee.isPlain else {
            guard let rest = seal(bytes, ending: ending, on: slot) else { return release(index, .peerClosed) }
            return sendLater(rest.first, body: rest.body, to: index)
        }
        let sent = put(bytes, ending: ending, on: slot)
        if sent == bytes.byteCount + ending.count { return answered(index) }
        guard sent >= 0 else { return release(index, .peerClosed) }
        let headBytes = Array(bytes.head.readableBytesView) + ending
        var body = bytes.body
        body.moveReaderIndex(forwardBy: max(0, sent - headBytes.count))
        sendLater(Array(headBytes.dropFirst(sent)), body: body, to: index)
    }

    /// The end of an answer's head; that of this second and the last origin is kept.
    private func fetchEnding(origin: String?, keepAlive: Bool) -> [UInt8] {
        let cors =
            settings.allowedOrigins.isEmpty
            ? "" : ResponseHead.corsFields(origin: origin, allowed: settings.allowedOrigins)
        return audience.bytes.fetchEnding(keepAlive ? cors : cors + "Connection: close\r\n")
    }

    /// Lets a fetch whose body comes behind its head wait for it, for as long as a head may take; many clients write
    /// the two apart. Over TLS only one record can be looked at.
    ///
    /// - Returns: false where the Front is to go on.
    func awaitBody(_ index: Int32) -> Bool {
        let slot = slots[index]
        guard slot.pointee.isPlain, !slot.pointee.input.hasMore, slot.pointee.input.waits < Self.maxWaits else {
            return false
        }
        slot.pointee.input.waits += 1
        // The deadline counts from the first wait, so that a body sent byte by byte does not move it.
        if slot.pointee.input.waits == 1 {
            audience.wheel.remove(index, in: slots)
            audience.wheel.insert(
                index, due: audience.wheel.now + TimerWheel.ticks(settings.connections.headTimeout.milliseconds),
                in: slots)
        }
        return true
    }

    /// Most readings of a head that is not whole: its bytes are read again each time.
    private static let maxWaits: UInt8 = 8

    func refuseBody(_ index: Int32) {
        _ = put(Refusals.whole(.bodyTimeout, cors: "", date: audience.bytes.date.string())[...], on: slots[index])
        release(index, .bodyTimeout)
    }

    // MARK: The state

    /// Answers what is current.
    func answer(_ index: Int32, _ request: StreamRequest, _ topics: AdmittedTopics) {
        let slot = slots[index]
        audience.wheel.remove(index, in: slots)
        slot.pointee.request.isHTTP11 = request.isHTTP11
        slot.pointee.request.keepAlive = request.keepAlive
        slot.pointee.times.deadline = max(1, audience.wheel.now)
        let cors = ResponseHead.corsFields(origin: request.origin, allowed: settings.allowedOrigins)
        let response = audience.bytes.state(topics, on: board, cors: cors, keepAlive: request.keepAlive)
        send(response, to: index)
    }
}
