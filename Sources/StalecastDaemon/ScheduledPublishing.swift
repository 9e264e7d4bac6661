import Logging
import ServiceLifecycle
import StalecastAccess
package import StalecastControl
package import StalecastStore
package import StalecastWire
import Synchronization

/// Publishes proposals at the time that their authors chose. In a cluster each node tries: the approval of a proposal is
/// one publish, whichever nodes make it.
package final class ScheduledPublishing: Sendable {
    /// Longest delay of a version. A daemon that was away for longer asks people again.
    package static let patience = Duration.seconds(3600)
    /// Principal that decides.
    package static let principal = "schedule"

    /// Report of an end.
    package enum Outcome: Sendable, Equatable {
        case published(VersionNumber)
        case ended(reason: String)
        /// Nothing was done, and it is tried again.
        case waiting(reason: String)
    }

    /// Time after which a proposal that could not be published is tried again, and from which it counts as late. In a
    /// cluster the nodes that do not publish it find another's approval under way, and each attempt costs writes to etcd.
    package static let pause = Duration.seconds(10)

    /// Newest attempt of a proposal that waits.
    private struct Attempt: Sendable {
        var at: Timestamp
        /// Reason that was reported last; nil: none was.
        var reported: String?
    }

    /// Newest step of the system's clock forward while this process ran: the times between its ends never came.
    private struct ClockSteps: Sendable {
        private var watch: ClockWatch?
        private var step: (from: Timestamp, to: Timestamp)?

        mutating func read(_ now: Timestamp, sinceBoot: Duration) {
            let reading = ClockWatch.Reading(wall: .microseconds(now.microseconds), sinceBoot: sinceBoot)
            defer { watch = watch ?? ClockWatch(reading) }
            guard let step = watch?.step(to: reading) else { return }
            // After a step back the times before it come again.
            self.step = step > .zero ? (now.advanced(by: .zero - step), now) : nil
        }

        /// Length of the step across `time`; nil when there was none.
        func length(across time: Timestamp) -> Duration? {
            guard let step, step.from < time, time <= step.to else { return nil }
            return .microseconds(step.to.microseconds - step.from.microseconds)
        }
    }

    private let store: TemplateStore
    private let copies: AuditCopies
    private let now: @Sendable () -> Timestamp
    private let sinceBoot: @Sendable () -> Duration
    /// Reason why an author's proposal must not be published any more, a sentence; nil where it may be.
    private let objection: @Sendable (Proposal) -> String?
    private let attempts = Mutex<[Proposal.ID: Attempt]>([:])
    private let clockSteps = Mutex(ClockSteps())

    /// - Parameters:
    ///   - copies: the audit log, which gets a line of each end.
    ///   - sinceBoot: time since the machine's start, which shows steps of the clock `now`.
    package init(
        _ store: TemplateStore, _ copies: AuditCopies, now: @escaping @Sendable () -> Timestamp = Timestamp.now,
        sinceBoot: @escaping @Sendable () -> Duration = ClockWatch.Reading.timeSinceBoot,
        objection: @escaping @Sendable (Proposal) -> String?
    ) {
        (self.store, self.copies, self.now, self.sinceBoot) = (store, copies, now, sinceBoot)
        self.objection = objection
    }

    /// Decides on the proposals whose time has come. Leaves out proposals that were decided elsewhere meanwhile.
    ///
    /// - Returns: outcomes worth a log line. That a proposal waits is one when it is late, once for each reason.
    package func publishDue() async -> [(Proposal, Outcome)] {
        let now = now()
        clockSteps.withLock { $0.read(now, sinceBoot: sinceBoot()) }
        // A database that cannot be read is said elsewhere, and tried again.
        let scheduled = (try? await store.scheduledProposals()) ?? []
        let ids = Set(scheduled.map(\.id))
        attempts.withLock { attempts in attempts = attempts.filter { ids.contains($0.key) } }
        var outcomes: [(Proposal, Outcome)] = []
        for proposal in scheduled {
            guard let time = proposal.publishTime, time <= now, isTurn(of: proposal, at: now) else { continue }
            let isLate = time.advanced(by: Self.patience) < now
            guard let outcome = await publish(proposal, isLate: isLate), isNews(outcome, of: proposal, at: now) else {
                continue
            }
            outcomes.append((proposal, outcome))
        }
        return outcomes
    }

    /// False during the pause after an attempt. A clock that was set back does not prolong the pause.
    private func isTurn(of proposal: Proposal, at now: Timestamp) -> Bool {
        guard let attempt = attempts.withLock({ $0[proposal.id] }) else { return true }
        return now < attempt.at || now >= attempt.at.advanced(by: Self.pause)
    }

    private func isNews(_ outcome: Outcome, of proposal: Proposal, at now: Timestamp) -> Bool {
        guard case .waiting(let reason) = outcome else { return true }
        let isDelayed = proposal.publishTime.map { $0.advanced(by: Self.pause) <= now } ?? false
        return attempts.withLock { attempts in
            let former = attempts[proposal.id]?.reported
            attempts[proposal.id] = Attempt(at: now, reported: isDelayed ? reason : former)
            return isDelayed && reason != former
        }
    }

    private func publish(_ proposal: Proposal, isLate: Bool) async -> Outcome? {
        if let reason = objection(proposal) { return await end(proposal, reason) }
        if isLate { return await end(proposal, reasonOfDelay(proposal)) }
        let by = Proposal.Person(principal: Self.principal, user: UpdateUser())
        var line = Self.line(of: proposal)
        line["changedKeys"] = .texts(proposal.changedKeys)
        do throws(StoreError) {
            let version = try await copies.recording("publishProposal", line) { () throws(StoreError) in
                try await store.approve(proposal.number, of: proposal.scope, by: by, allowsOwn: true)
            }
            return .published(version.version)
        } catch {
            switch error {
            case .notOpen, .unknownProposal: return nil
            case .versionMismatch(_, let found):
                return await end(
                    proposal,
                    "version \(found) is current, but the proposal was made over version \(proposal.base): propose it again"
                )
            // Conditions that pass, or outcomes to be found out: the proposal stays and has its turn again.
            case .unavailable, .diskFull, .outcomePending, .outcomeUnknown, .readFailed, .logFull:
                return .waiting(reason: error.description)
            default: return await end(proposal, error.description)
            }
        }
    }

    private func reasonOfDelay(_ proposal: Proposal) -> String {
        guard let time = proposal.publishTime, let length = clockSteps.withLock({ $0.length(across: time) }) else {
            return "no daemon could publish it within an hour of its time"
        }
        let (hours, minutes) = (length.components.seconds / 3600, length.components.seconds / 60 % 60)
        return "the system clock was put forward by \(hours) h \(minutes) min, across its time: propose it again"
    }

    private func end(_ proposal: Proposal, _ reason: String) async -> Outcome? {
        let by = Proposal.Person(principal: Self.principal, user: UpdateUser())
        do throws(StoreError) {
            try await store.reject(proposal.number, of: proposal.scope, by: by, reason: reason)
            var line = Self.line(of: proposal)
            line["outcome"] = "refused"
            line["reason"] = .string(reason)
            copies.audit.write("publishProposal", line)
            return .ended(reason: reason)
        } catch {
            switch error {
            case .notOpen, .unknownProposal: return nil
            default: return .waiting(reason: error.description)
            }
        }
    }

    private static func line(of proposal: Proposal) -> JSONObject {
        [
            "actor": .string(principal), "project": .string(proposal.scope.project.description),
            "namespace": .string(proposal.scope.namespace.description), "proposal": .string(String(proposal.number)),
            "author": .string(proposal.author.principal),
        ]
    }
}

extension Daemon.Parts {
    /// Publishes what is due, each second, until told to end.
    func publishScheduled(_ configuration: Configuration, _ logger: Logger) async {
        let approvals = Set(configuration.projects.filter { $0.approvals == .required }.map(\.id))
        let (feeds, access) = (sources.words, access)
        let publishing = ScheduledPublishing(store, copies) { proposal in
            if let feed = feeds[proposal.scope] { return "the versions of its scope come from \(feed)" }
            if approvals.contains(proposal.scope.project) { return "its project's versions need an approval now" }
            return access.mayPublish(proposal) ? nil : "its author's key may not publish any more"
        }
        for await _ in AsyncTimer(period: .seconds(1)).cancelOnGracefulShutdown() {
            // An edge may have proposals of a time when it was a core node.
            if cluster?.isEdge == true { continue }
            for (proposal, outcome) in await publishing.publishDue() { log(outcome, of: proposal, logger) }
        }
    }

    private func log(_ outcome: ScheduledPublishing.Outcome, of proposal: Proposal, _ logger: Logger) {
        var metadata: Logger.Metadata = [
            "scope": "\(proposal.scope)", "proposal": "\(proposal.number)", "author": "\(proposal.author.principal)",
        ]
        switch outcome {
        case .published(let version):
            metadata["version"] = "\(version)"
            logger.notice("scheduled version published", metadata: metadata)
        case .ended(let reason):
            metadata["reason"] = "\(reason)"
            logger.warning("scheduled version not published", metadata: metadata)
        case .waiting(let reason):
            metadata["reason"] = "\(reason)"
            logger.warning("scheduled version is late, trying again", metadata: metadata)
        }
    }
}

extension Authorizer {
    /// Whether a proposal's author may publish still, as far as that is known here: keys can be revoked, and the grants of
    /// tokens are known only while they are shown.
    fileprivate func mayPublish(_ proposal: Proposal) -> Bool {
        let prefix = "key:"
        guard proposal.author.principal.hasPrefix(prefix) else { return true }
        guard let key = key(String(proposal.author.principal.dropFirst(prefix.count)))?.key else { return false }
        return key.isLive(at: .now()) && key.grants.contains { $0.permits(.publish, in: proposal.scope) }
    }
}
