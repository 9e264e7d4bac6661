package import StalecastOutbound
package import StalecastWire
import Synchronization

/// Listens to an origin's real-time stream (`:streamFetchInvalidations`) as one of its clients, and tells of every
/// version it hears of. Only a trigger: what is announced is read by ``FirebaseSource``, whose polls go on, seldom, as
/// a safety net.
package final class InvalidationStream: Sendable {
    private let settings: Settings
    private let access: OriginAccess
    private let known: @Sendable () -> VersionNumber
    private let onVersion: @Sendable (VersionNumber?) -> Void
    private let state = Mutex(State())

    private struct State {
        var parser = InvalidationParser()
        /// Begin of the connection that is open or was last.
        var openedAt: ContinuousClock.Instant?
        var lastBytesAt = ContinuousClock.now
        /// Last version that this connection announced.
        var told: VersionNumber?
        var pause: Duration?
        var isDisabled = false
        var problem: String?
        var connections = 0

        /// - Returns: what is worth telling.
        mutating func take(_ message: Invalidation) -> [VersionNumber?] {
            pause = message.retryInterval ?? pause
            if message.isDisabled {
                isDisabled = true
                pause = InvalidationStream.disabledPause
                problem = "the origin has real-time updates switched off"
            }
            // Any other number is worth a poll: an origin that was reset counts from 1 again. A number out of range
            // promises no version.
            guard let version = message.version, version != told else { return [] }
            told = version
            return [version < .max ? version : nil]
        }
    }

    /// A stream that is silent for longer is dead: servers send something every 30 s or end it after 5 min.
    private static let silence = Duration.seconds(330)
    /// A connection that lived shorter than this is no reason to come back at once.
    private static let goodLife = Duration.seconds(5)
    /// Time to stay away from an origin that has real-time updates switched off.
    private static let disabledPause = Duration.seconds(3600)

    /// - Parameters:
    ///   - known: the version that the last look saw, 0 for none: what the origin is told to be known.
    ///   - onVersion: hears of every version the stream tells of, on any thread, must not block; nil when the stream was
    ///     opened or has ended, since something may have been missed, and polls are needed again.
    package init(
        _ settings: Settings, access: OriginAccess, known: @escaping @Sendable () -> VersionNumber,
        onVersion: @escaping @Sendable (VersionNumber?) -> Void
    ) {
        (self.settings, self.access, self.known, self.onVersion) = (settings, access, known, onVersion)
    }

    /// Whether the stream is open, so that polls may be seldom.
    package var isOpen: Bool { state.withLock { $0.openedAt != nil } }
    /// Reason that ended the last connection, or keeps the next from being made; nil while one is open and after a
    /// clean end.
    package var problem: String? { state.withLock { $0.problem } }
    /// Connections that were answered with 200 so far.
    package var connections: Int { state.withLock { $0.connections } }

    /// Keeps a connection until the task is cancelled.
    package func run() async {
        var failures = 0
        while !Task.isCancelled {
            let (lived, outcome) = await connect()
            failures = lived >= Self.goodLife ? 0 : failures + 1
            var pause = settings.backoff.delay(afterFailures: failures)
            let wasOpen = isOpen
            if let asked = close(outcome) { pause = max(pause, asked) }
            if wasOpen { onVersion(nil) }
            try? await Task.sleep(for: pause)  // cancelled: the loop ends
        }
    }

    /// - Returns: how long the connection was open, and how it ended.
    private func connect() async -> (Duration, OutboundOutcome) {
        state.withLock {
            $0.parser = InvalidationParser()
            $0.told = nil
            $0.isDisabled = false
            $0.lastBytesAt = .now
        }
        let request = await request()
        let outcome = await withTaskGroup(of: OutboundOutcome?.self) { group in
            group.addTask { await self.access.engine.stream(request) { self.received($0, $1) } }
            group.addTask { await self.watchSilence() }
            var ended: OutboundOutcome?
            // The first to end says how the connection ended; the other ends because of it.
            for await outcome in group {
                ended = ended ?? outcome
                group.cancelAll()
            }
            return ended ?? OutboundOutcome(result: .failed(OutboundFailure(.cancelled)))
        }
        let opened = state.withLock(\.openedAt)
        return (opened.map { ContinuousClock.now - $0 } ?? .zero, outcome)
    }

    private func request() async -> OutboundRequest {
        var headers = access.headers + settings.headers
        if let token = await settings.installation?.token() {
            headers.append(OutboundHeader(trusted: "X-Goog-Firebase-Installations-Auth", token))
        }
        var limits = access.limits
        limits.timeout = .zero
        return OutboundRequest(
            method: "POST", url: settings.url, headers: headers, body: settings.body(known: known()), limits: limits,
            policy: access.policy, tls: access.tls, keptHeaders: ["retry-after", "date"])
    }

    /// Ends with nil when nothing has come for too long.
    private func watchSilence() async -> OutboundOutcome? {
        while !Task.isCancelled {
            let left = Self.silence - (ContinuousClock.now - state.withLock(\.lastBytesAt))
            if left <= .zero { return OutboundOutcome(result: .failed(OutboundFailure(.responseTimeout))) }
            try? await Task.sleep(for: left)  // cancelled: the loop ends
        }
        return nil
    }

    /// Takes bytes of the answer, on the engine's thread.
    private func received(_ status: Int, _ bytes: [UInt8]) -> Bool {
        guard status == 200 else { return true }
        let heard = state.withLock { state -> [VersionNumber?]? in
            state.lastBytesAt = .now
            var heard: [VersionNumber?] = []
            if state.openedAt == nil {
                state.openedAt = .now
                state.problem = nil
                state.connections += 1
                // Something may have been published while no stream was open: the opening is news by itself.
                heard.append(nil)
            }
            do throws(InvalidValue) {
                for message in try state.parser.receive(bytes) { heard += state.take(message) }
            } catch {
                state.problem = error.description
                return nil
            }
            return state.isDisabled ? nil : heard
        }
        guard let heard else { return false }
        // Tells without the lock: a hearer may ask this stream for its state, and the lock is not recursive.
        for version in heard { onVersion(version) }
        return true
    }

    /// Notes the end of a connection.
    ///
    /// - Returns: how long the server asked to stay away.
    private func close(_ outcome: OutboundOutcome) -> Duration? {
        state.withLock { state in
            state.openedAt = nil
            var pause = state.pause
            state.pause = nil
            switch outcome.result {
            case .answered(200, _, _, _): break
            case .answered(let status, let headers, _, _):
                let excuse = [401, 403].contains(status) ? settings.installation?.excuse ?? "" : ""
                state.problem = "the real-time stream answers \(status)\(excuse)"
                pause = RetryAfter.delay(headers["retry-after"], date: headers["date"], now: .now()) ?? pause
            case .failed(let failure): state.problem = state.problem ?? "the real-time stream: \(failure.description)"
            }
            return pause
        }
    }

    /// Wait before a stream is opened again.
    package struct Backoff: Sendable {
        /// Delay after a stream that lived well. Default 200 ms, so that an origin's restart is no hot loop.
        package var afterEnd: Duration = .milliseconds(200)
        /// Delay after the first failure; doubles. Default 1 s.
        package var first: Duration = .seconds(1)
        /// Default 5 min.
        package var longest: Duration = .seconds(300)

        /// Wait with jitter: between half and the whole of it.
        func delay(afterFailures failures: Int) -> Duration {
            let whole = failures == 0 ? afterEnd : first.doubled(afterFailures: failures, atMost: longest)
            return whole * Double.random(in: 0.5...1)
        }
    }

    /// Client as which an origin's real-time stream is opened.
    package struct Settings: Sendable {
        package let url: OutboundURL
        /// Header fields, with the API key.
        let headers: [OutboundHeader]
        /// Installation for Google, which asks for its token; nil where none is needed.
        package var installation: FirebaseInstallation?
        package var backoff = InvalidationStream.Backoff()
        private let project: String
        private let namespace: Namespace
        private let appID: String

        /// Google's host.
        package static let defaultBase = "https://firebaseremoteconfigrealtime.googleapis.com"

        /// - Parameters:
        ///   - base: scheme, host and port; another Stalecast's is its Edge.
        ///   - project: id or number, as the origin's clients use it.
        ///   - appID: `1:123456789012:web:0a1b2c3d`; any text where the origin does not check.
        /// - Throws: ``OutboundURL/Invalid`` for a base that is no URL or a key that is no header's value.
        package init(
            base: String, project: String, namespace: Namespace, apiKey: String, appID: String
        ) throws(OutboundURL.Invalid) {
            url = try OutboundURL("\(base)/v1/projects/\(project)/namespaces/\(namespace):streamFetchInvalidations")
            headers = [
                try OutboundHeader("X-Goog-Api-Key", apiKey),
                OutboundHeader(trusted: "Content-Type", "application/json"),
                OutboundHeader(trusted: "Accept", "application/json"),
                OutboundHeader(trusted: "X-Google-GFE-Can-Retry", "yes"),
                OutboundHeader(trusted: "X-Accept-Response-Streaming", "true"),
            ]
            (self.project, self.namespace, self.appID) = (project, namespace, appID)
        }

        /// - Parameter known: 0 for none; the origin answers at once when it has a newer one.
        func body(known: VersionNumber) -> [UInt8] {
            let body: JSONValue = [
                "project": .string(project), "namespace": .string(namespace.description),
                "lastKnownVersionNumber": .string(String(known)), "appId": .string(appID), "sdkVersion": "1.0.0",
                "appInstanceId": .string(installation?.id ?? FirebaseInstallation.fallbackID),
            ]
            return body.encoded()
        }
    }
}
