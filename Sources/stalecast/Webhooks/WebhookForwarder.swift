import StalecastDaemon
import StalecastOutbound
import StalecastWebhooks
import StalecastWire
import Synchronization

/// Sends versions to an app as signed webhooks, the newest only, until the app answers 2xx. No webhook is registered.
final class WebhookForwarder: Sendable {
    private let url: OutboundURL
    private let signer: Signer
    private let output: Output
    /// The newest version that the app has not taken, unless an attempt for it runs.
    private let owed = Mutex<ForwardedVersion?>(nil)
    private let news = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))

    private static let patience: Duration = .seconds(15)
    private static let firstPause: Duration = .milliseconds(250)
    private static let longestPause: Duration = .seconds(10)

    init(_ url: String, _ key: SigningKey, _ output: Output) throws(CommandFailure) {
        do { self.url = try OutboundURL(url) } catch {
            throw CommandFailure(
                .usage, "--forward-to is the URL of your app, for example http://127.0.0.1:3000/hook: \(error)")
        }
        signer = Signer([Signer.SecretKey(key, createdAt: .now())])
        self.output = output
    }

    func receive(_ version: ForwardedVersion) {
        owed.withLock { $0 = $0.map(version.covering) ?? version }
        news.continuation.yield()
    }

    /// Sends versions until the app has taken `limit` of them; with nil it goes on until it is cancelled.
    func run(limit: Int?) async throws {
        var taken = 0
        for await _ in news.stream {
            var attempts = 0
            while let version = take() {
                attempts += 1
                let attempt = try await attempt(version)
                let isTaken = attempt["outcome"]?.string == "2xx"
                let pause = Self.firstPause.doubled(afterFailures: attempts, atMost: Self.longestPause)
                try show(version, attempt, again: isTaken ? nil : pause)
                if isTaken {
                    taken += 1
                    attempts = 0
                    if taken == limit { return }
                } else {
                    // A version that came during the attempt stands for this one as well.
                    owed.withLock { $0 = $0?.covering(version) ?? version }
                    try await Task.sleep(for: pause)
                }
            }
        }
    }

    private func take() -> ForwardedVersion? {
        owed.withLock { owed in
            defer { owed = nil }
            return owed
        }
    }

    /// Sends a version once.
    ///
    /// - Returns: an attempt with the members that Control gives those of registered webhooks.
    /// - Throws: `CancellationError`.
    private func attempt(_ version: ForwardedVersion) async throws -> JSONValue {
        let body = version.body
        let fields =
            signer.headers(version.id, body) + [
                ("content-type", StandardMessage.contentType), ("user-agent", "stalecast/\(DaemonVersion.text)"),
            ]
        let headers = fields.map { OutboundHeader(trusted: $0.name, $0.value) }
        let request = OutboundRequest(
            method: "POST", url: url, headers: headers, body: body, policy: ServerAddress.anywhere)
        var attempt: JSONObject = [
            "time": .string(Timestamp.now().description), "versionNumber": .string("\(version.version)"),
            "messageId": .string(version.id),
        ]
        do {
            let answer = try await HTTPAnswer.of(request, patience: Self.patience)
            attempt["status"] = .int(answer.status)
            attempt["outcome"] = .string("\(answer.status / 100)xx")
            let text = String(decoding: answer.body.prefix(1024), as: UTF8.self)
            if !text.isEmpty { attempt["response"] = .string(text) }
        } catch let failure as OutboundFailure {
            attempt["outcome"] = .string(failure.reason.rawValue)
            attempt["problem"] = .string(failure.words)
        }
        return .object(attempt)
    }

    private func show(
        _ version: ForwardedVersion, _ attempt: JSONValue, again pause: Duration?
    ) throws(CommandFailure) {
        if output.isJSON { return try output.jsonText(attempt.text()) }
        let outcome = WebhookAttemptText(attempt).outcome.printable
        let since = version.since.map { " since \($0)" } ?? ""
        let end =
            pause.map { output.palette.red("\(outcome); again in \($0.inSeconds)") } ?? output.palette.green(outcome)
        let subject = attempt["status"] == nil ? "no answer, " : "the app answered "
        try output.line("\(LocalClock.asked.date(.now()))  version \(version.version)\(since): \(subject)\(end)")
    }
}
