package import Foundation

/// Seconds that a ``LinkAttempt`` waits for a sign of life.
package struct LinkLimits: Sendable, Hashable {
    /// Seconds until the answer's head, and again until the first byte behind it.
    var opening: TimeInterval
    /// Seconds between any two pieces after that.
    var silence: TimeInterval

    package init(opening: TimeInterval, silence: TimeInterval) { (self.opening, self.silence) = (opening, silence) }
}

/// Running attempt as a ``ConnectionMachine`` sees it.
package protocol RunningAttempt: AnyObject {
    /// Ends it without a report.
    func cancel()
    /// Reads no more, and forgives silence, until ``resumeReading()``.
    func pauseReading()
    func resumeReading()
}

/// One attempt at one protocol: makes the request, follows redirects, notices silence, and reports what comes until it
/// is over, by one of the last three reports.
///
/// `@unchecked`: touched on the loop's thread only.
package final class LinkAttempt<Dialect: LinkDialect>: RunningAttempt, @unchecked Sendable {
    package enum Report: Sendable {
        case open
        case step(DialectStep<Dialect.Output>)
        /// The attempt failed, or a stream ended.
        case lost(LinkLoss, upFor: TimeInterval?)
        /// A whole answer was read, after so many seconds; `isNews`: it moved something.
        case answered(isNews: Bool, after: TimeInterval)
        /// The server wants us never to come back.
        case dismissed
    }

    private enum Phase { case asked, answered, reading }

    private let loop: LinkLoop
    private let limits: LinkLimits
    private let onReport: @Sendable (LinkAttempt, Report) -> Void

    /// State that was learnt; may be changed while it runs.
    package var dialect: Dialect

    private var isOver = false
    private var isPaused = false
    private var exchange: (any StreamExchange)?
    private var request: StreamRequest?
    private var redirects = 0
    private var phase = Phase.asked
    private var upSince: UInt64?
    private var begunAt: UInt64 = 0
    private var lastSign: UInt64 = 0
    /// Seconds until the answer's first byte.
    private var openingLimit: TimeInterval = 0
    /// The next look at the time since `lastSign`.
    private var timer: Int?

    package init(
        _ dialect: Dialect, limits: LinkLimits, loop: LinkLoop,
        onReport: @escaping @Sendable (LinkAttempt, Report) -> Void
    ) {
        (self.dialect, self.limits, self.loop, self.onReport) = (dialect, limits, loop, onReport)
    }

    package func cancel() {
        isOver = true
        exchange?.cancel()
        exchange = nil
        loop.cancelTimer(timer)
        timer = nil
    }

    package func pauseReading() {
        isPaused = true
        exchange?.pause()
    }

    package func resumeReading() {
        isPaused = false
        lastSign = LinkLoop.now
        exchange?.resume()
    }

    package func start() {
        begunAt = LinkLoop.now
        lastSign = begunAt
        openingLimit = limits.opening + dialect.hold
        watch(openingLimit)
        switch dialect.request() {
        case .ready(let request): open(request)
        case .later(let prepare):
            // Ends by itself; what it finds is dropped when the attempt is over.
            Task { [weak self, loop] in
                do {
                    let request = try await prepare()
                    loop.perform { [weak self] in self?.prepared(.success(request)) }
                } catch {
                    let loss = LinkLoss(.broken, "no credentials: \(error)")
                    loop.perform { [weak self] in self?.prepared(.failure(loss)) }
                }
            }
        }
    }

    private func prepared(_ result: Result<StreamRequest, LinkLoss>) {
        guard !isOver else { return }
        switch result {
        case .success(let request): open(request)
        case .failure(let loss): lost(loss)
        }
    }

    private func open(_ request: StreamRequest) {
        self.request = request
        let hop = redirects
        exchange = loop.start(request) { [weak self] event in
            if let self, !isOver, redirects == hop { received(event) }
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
        // libcurl forgets a pause that began before its connection was there.
        if isPaused { exchange?.pause() }
        if Redirect.isRedirect(head.status) { return try follow(head) }
        if head.status == 204 { return end(.dismissed) }
        guard (200..<300).contains(head.status) else {
            let reason = "the server answered HTTP \(head.status)"
            throw LinkLoss(.refused(status: head.status), reason, retryAfter: head.retryAfter(now: Date()))
        }
        if let coding = head.headers["content-encoding"]?.lowercased(), coding != "identity", !coding.isEmpty {
            throw LinkLoss(.foreign, "the answer is encoded (\(coding)), which was not asked for")
        }
        try dialect.begin(head)
        phase = .answered
        if dialect.opening == .head { opened() }
    }

    private func follow(_ head: ResponseHead) throws(LinkLoss) {
        guard let request else { return }
        redirects += 1
        do throws(Redirect.Refused) {
            let next = try Redirect.next(request, head, hop: redirects)
            exchange?.cancel()
            open(next)
        } catch {
            throw LinkLoss(.refused(status: head.status), error.description)
        }
    }

    private func received(_ bytes: [UInt8]) throws(LinkLoss) {
        if phase == .asked { return }
        if phase == .answered {
            phase = .reading
            watch(limits.silence)
        }
        if dialect.opening == .firstBytes { opened() }
        guard !isOver else { return }
        take(try dialect.receive(bytes))
    }

    private func ended() throws(LinkLoss) {
        switch try dialect.end() {
        case .closed: throw LinkLoss(.closed, "the server ended the stream")
        case .answered(let steps, let isNews):
            opened()
            if !isOver { take(steps) }
            guard !isOver else { return }
            end(.answered(isNews: isNews, after: TimeInterval(LinkLoop.now - begunAt) / 1e9))
        }
    }

    private func take(_ steps: [DialectStep<Dialect.Output>]) {
        for step in steps {
            onReport(self, .step(step))
            guard !isOver else { return }
        }
    }

    private func opened() {
        guard upSince == nil else { return }
        upSince = LinkLoop.now
        onReport(self, .open)
    }

    // MARK: Endings

    private func end(_ report: Report) {
        cancel()
        onReport(self, report)
    }

    private func lost(_ loss: LinkLoss) {
        guard !isOver else { return }
        dialect.lost()
        end(.lost(loss, upFor: upSince.map { TimeInterval(LinkLoop.now - $0) / 1e9 }))
    }

    /// Looks again when the limit is over; each sign of life moves that on without a new timer.
    private func watch(_ seconds: TimeInterval) {
        loop.cancelTimer(timer)
        timer = loop.after(seconds) { [weak self] in
            if let self, !isOver { checkSilence() }
        }
    }

    private func checkSilence() {
        let isReading = phase == .reading
        let limit = isReading ? limits.silence : openingLimit
        let silent = TimeInterval(LinkLoop.now - lastSign) / 1e9
        guard silent >= limit, !isPaused else { return watch(isPaused ? limit : limit - silent) }
        lost(LinkLoss(.silent, isReading ? "no heartbeat for \(Int(limit)) s" : "no answer within \(Int(limit)) s"))
    }
}
