import Foundation

/// How long a ``LinkSupervisor`` waits for a sign of life, in seconds.
struct LinkLimits: Sendable, Hashable {
    /// Until the answer's head, and again until the first byte behind it.
    var opening: TimeInterval
    /// Between any two pieces after that.
    var silence: TimeInterval
}

/// Keeps one protocol going: connects, follows redirects, notices silence, waits, and comes back, until it is stopped
/// or the server dismisses it.
///
/// `@unchecked`: touched on the loop's thread only.
final class LinkSupervisor<Dialect: LinkDialect>: @unchecked Sendable {
    enum Report: Sendable {
        case connecting
        case open
        case output(Dialect.Output)
        /// A stream or an attempt ended; the next begins in `delay` seconds.
        case lost(LinkLoss, upFor: TimeInterval?, failures: Int, delay: TimeInterval)
        /// The server wants us never to come back; this has stopped.
        case dismissed
    }

    private let loop: LinkLoop
    private let limits: LinkLimits
    private let random: @Sendable () -> Double
    private let onReport: @Sendable (Report) -> Void

    /// What has been learnt; may be changed between exchanges and while one runs.
    var dialect: Dialect
    private(set) var schedule: ReconnectSchedule

    private var isRunning = false
    private var isPaused = false
    /// Counts attempts, so that what belongs to a former one is known.
    private var turn = 0
    private var exchange: (any StreamExchange)?
    private var request: StreamRequest?
    private var redirects = 0
    private var isAnswered = false
    private var hasBytes = false
    private var upSince: UInt64?
    private var begunAt: UInt64 = 0
    private var lastSign: UInt64 = 0
    private var pause: TimeInterval?
    /// Until the answer's first byte, in seconds.
    private var openingLimit: TimeInterval = 0
    /// The next attempt, or the next look at the time since `lastSign`.
    private var timer: Int?

    init(
        _ dialect: Dialect, schedule: ReconnectSchedule, limits: LinkLimits, loop: LinkLoop,
        random: @escaping @Sendable () -> Double, onReport: @escaping @Sendable (Report) -> Void
    ) {
        self.dialect = dialect
        self.schedule = schedule
        self.limits = limits
        self.loop = loop
        self.random = random
        self.onReport = onReport
    }

    // MARK: Orders

    /// - Parameter delay: seconds before the first attempt.
    func start(after delay: TimeInterval = 0) {
        guard !isRunning else { return }
        isRunning = true
        if delay > 0 { attempt(after: delay) } else { attempt() }
    }

    /// Ends what runs, without a report.
    func stop() {
        isRunning = false
        endExchange()
    }

    /// Ends what runs and connects anew, at once; former failures do not count.
    func reconnect() {
        guard isRunning else { return }
        schedule.forgetFailures()
        endExchange()
        attempt()
    }

    /// Reads no more, and forgives silence, until ``resumeReading()``.
    func pauseReading() {
        isPaused = true
        exchange?.pause()
    }

    func resumeReading() {
        isPaused = false
        lastSign = LinkLoop.now
        exchange?.resume()
    }

    // MARK: An attempt

    private func endExchange() {
        turn += 1
        exchange?.cancel()
        exchange = nil
        loop.cancelTimer(timer)
        timer = nil
    }

    private func attempt(after delay: TimeInterval) {
        let turn = turn
        timer = loop.after(delay) { [weak self] in
            if let self, self.turn == turn { attempt() }
        }
    }

    private func attempt() {
        turn += 1
        (redirects, isAnswered, hasBytes, upSince, pause) = (0, false, false, nil, nil)
        begunAt = LinkLoop.now
        lastSign = begunAt
        let turn = turn
        onReport(.connecting)
        guard turn == self.turn else { return }
        openingLimit = limits.opening + dialect.hold
        watch(openingLimit)
        switch dialect.request() {
        case .ready(let request): open(request)
        case .later(let prepare):
            // Ends by itself; what it finds is dropped when its turn is over.
            Task { [weak self, loop] in
                do {
                    let request = try await prepare()
                    loop.perform { [weak self] in self?.prepared(.success(request), turn) }
                } catch {
                    let loss = LinkLoss(.broken, "no credentials: \(error)")
                    loop.perform { [weak self] in self?.prepared(.failure(loss), turn) }
                }
            }
        }
    }

    private func prepared(_ result: Result<StreamRequest, LinkLoss>, _ turn: Int) {
        guard turn == self.turn else { return }
        switch result {
        case .success(let request): open(request)
        case .failure(let loss): lost(loss)
        }
    }

    private func open(_ request: StreamRequest) {
        self.request = request
        let turn = turn
        let hop = redirects
        exchange = StreamExchanges.start(request, on: loop) { [weak self] event in
            if let self, self.turn == turn, redirects == hop { received(event) }
        }
        if isPaused { exchange?.pause() }
    }

    // MARK: An answer

    private func received(_ event: StreamEvent) {
        lastSign = LinkLoop.now
        do throws(LinkLoss) {
            switch event {
            case .head(let head): try received(head)
            case .bytes(let bytes): try received(bytes)
            case .end: try ended()
            case .failed(let reason): throw LinkLoss(.broken, reason)
            }
        } catch { lost(error) }
    }

    private func received(_ head: ResponseHead) throws(LinkLoss) {
        if Redirect.isRedirect(head.status) { return try follow(head) }
        if head.status == 204 { return dismissed() }
        guard (200..<300).contains(head.status) else {
            let reason = "the server answered HTTP \(head.status)"
            throw LinkLoss(.refused(status: head.status), reason, retryAfter: head.retryAfter(now: Date()))
        }
        if let coding = head.headers["content-encoding"]?.lowercased(), coding != "identity", !coding.isEmpty {
            throw LinkLoss(.foreign, "the answer is encoded (\(coding)), which was not asked for")
        }
        try dialect.begin(head)
        isAnswered = true
        if dialect.opening == .head { opened() }
    }

    private func follow(_ head: ResponseHead) throws(LinkLoss) {
        guard let request else { return }
        redirects += 1
        guard redirects <= Redirect.longestChain else {
            throw LinkLoss(.refused(status: head.status), "more than \(Redirect.longestChain) redirects in a row")
        }
        do throws(Redirect.Refused) {
            let next = try Redirect.next(request, head)
            exchange?.cancel()
            open(next)
        } catch {
            throw LinkLoss(.refused(status: head.status), error.description)
        }
    }

    private func received(_ bytes: [UInt8]) throws(LinkLoss) {
        guard isAnswered else { return }
        if !hasBytes {
            hasBytes = true
            watch(limits.silence)
        }
        let turn = turn
        if dialect.opening == .firstBytes { opened() }
        guard turn == self.turn else { return }
        take(try dialect.receive(bytes))
    }

    private func ended() throws(LinkLoss) {
        let turn = turn
        switch try dialect.end() {
        case .closed: throw LinkLoss(.closed, "the server ended the stream")
        case .answered(let steps, let isNews):
            opened()
            if turn == self.turn { take(steps) }
            guard turn == self.turn else { return }
            schedule.forgetFailures()
            endExchange()
            // An answer that came at once and said nothing would make us ask as fast as we can.
            let isIdle = !isNews && LinkLoop.now - begunAt < 1_000_000_000
            attempt(after: isIdle ? 1 + random() : 0)
        }
    }

    private func take(_ steps: [DialectStep<Dialect.Output>]) {
        let turn = turn
        for step in steps {
            switch step {
            case .output(let output): onReport(.output(output))
            case .retry(let delay): schedule.serverAsked(for: delay)
            case .pause(let delay): pause = min(delay, ReconnectSchedule.longestServerDelay)
            }
            guard turn == self.turn else { return }
        }
    }

    private func opened() {
        guard upSince == nil else { return }
        upSince = LinkLoop.now
        onReport(.open)
    }

    // MARK: Endings

    private func dismissed() {
        stop()
        onReport(.dismissed)
    }

    private func lost(_ loss: LinkLoss) {
        let upFor = upSince.map { TimeInterval(LinkLoop.now - $0) / 1e9 }
        endExchange()
        dialect.lost()
        var delay = schedule.lost(loss, upFor: upFor, random: random())
        if let pause, loss.kind == .closed { delay = pause + random() * schedule.firstDelay }
        attempt(after: delay)
        onReport(.lost(loss, upFor: upFor, failures: schedule.failures, delay: delay))
    }

    /// Looks again when the limit is over; each sign of life moves that on without a new timer.
    private func watch(_ seconds: TimeInterval) {
        loop.cancelTimer(timer)
        timer = loop.after(seconds) { [weak self, turn] in
            if let self, self.turn == turn { checkSilence() }
        }
    }

    private func checkSilence() {
        let limit = hasBytes ? limits.silence : openingLimit
        let silent = TimeInterval(LinkLoop.now - lastSign) / 1e9
        guard silent >= limit, !isPaused else { return watch(isPaused ? limit : limit - silent) }
        lost(LinkLoss(.silent, hasBytes ? "no heartbeat for \(Int(limit)) s" : "no answer within \(Int(limit)) s"))
    }
}
