import Logging
import ServiceLifecycle
import StalecastAccess
import StalecastControl
package import StalecastStore
package import StalecastWire

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

    private let store: TemplateStore
    private let now: @Sendable () -> Timestamp
    /// Why an author's proposal must not be published any more, a sentence; nil where it may be.
    private let objection: @Sendable (Proposal) -> String?

    package init(
        _ store: TemplateStore, now: @escaping @Sendable () -> Timestamp = Timestamp.now,
        objection: @escaping @Sendable (Proposal) -> String?
    ) {
        (self.store, self.now, self.objection) = (store, now, objection)
    }

    /// Decides on the proposals whose time has come. Leaves out those that somebody else decided on meanwhile.
    package func publishDue() async -> [(Proposal, Outcome)] {
        let now = now()
        // A database that cannot be read is said elsewhere, and tried again.
        let scheduled = (try? await store.scheduledProposals()) ?? []
        var outcomes: [(Proposal, Outcome)] = []
        for proposal in scheduled {
            guard let time = proposal.publishTime, time <= now else { continue }
            if let outcome = await publish(proposal, isLate: time.advanced(by: Self.patience) < now) {
                outcomes.append((proposal, outcome))
            }
        }
        return outcomes
    }

    private func publish(_ proposal: Proposal, isLate: Bool) async -> Outcome? {
        if let reason = objection(proposal) { return await end(proposal, reason) }
        if isLate { return await end(proposal, "no daemon could publish it within an hour of its time") }
        let by = Proposal.Person(principal: Self.principal, user: UpdateUser())
        do throws(StoreError) {
            let version = try await store.approve(proposal.number, of: proposal.scope, by: by, allowsOwn: true)
            return .published(version.version)
        } catch {
            switch error {
            case .notOpen, .unknownProposal: return nil
            case .versionMismatch(_, let found):
                return await end(
                    proposal,
                    "version \(found) is current, and it was made over version \(proposal.base): propose it anew")
            case .unavailable, .diskFull, .outcomePending, .outcomeUnknown, .readFailed, .logFull:
                return .waiting(reason: error.description)
            default: return await end(proposal, error.description)
            }
        }
    }

    private func end(_ proposal: Proposal, _ reason: String) async -> Outcome? {
        let by = Proposal.Person(principal: Self.principal, user: UpdateUser())
        do throws(StoreError) {
            try await store.reject(proposal.number, of: proposal.scope, by: by, reason: reason)
            return .ended(reason: reason)
        } catch {
            switch error {
            case .notOpen, .unknownProposal: return nil
            default: return .waiting(reason: error.description)
            }
        }
    }
}

extension Daemon.Parts {
    /// Publishes what is due, each second, until told to end.
    func publishScheduled(_ configuration: Configuration, _ logger: Logger) async {
        let approvals = Set(configuration.projects.filter { $0.approvals == .required }.map(\.id))
        let (feeds, access) = (sources.words, access)
        let publishing = ScheduledPublishing(store) { proposal in
            if let feed = feeds[proposal.scope] { return "the versions of its scope come from \(feed)" }
            if approvals.contains(proposal.scope.project) { return "its project's versions need an approval now" }
            return access.mayPublish(proposal) ? nil : "its author's key may not publish any more"
        }
        var said: [Scope: String] = [:]
        for await _ in AsyncTimer(period: .seconds(1)).cancelOnGracefulShutdown() {
            // An edge may have proposals of a time when it was a core node.
            if cluster?.isEdge == true { continue }
            for (proposal, outcome) in await publishing.publishDue() {
                // Of what is tried each second a line is enough.
                if case .waiting(let reason) = outcome {
                    if said.updateValue(reason, forKey: proposal.scope) == reason { continue }
                } else {
                    said[proposal.scope] = nil
                }
                report(outcome, of: proposal, logger)
            }
        }
    }

    private func report(_ outcome: ScheduledPublishing.Outcome, of proposal: Proposal, _ logger: Logger) {
        let metadata: Logger.Metadata = [
            "scope": "\(proposal.scope)", "proposal": "\(proposal.number)", "author": "\(proposal.author.principal)",
        ]
        var line: JSONObject = [
            "actor": .string(ScheduledPublishing.principal), "project": .string(proposal.scope.project.description),
            "namespace": .string(proposal.scope.namespace.description), "proposal": .string(String(proposal.number)),
            "author": .string(proposal.author.principal),
        ]
        switch outcome {
        case .published(let version):
            line["outcome"] = "ok"
            line["version"] = .string(String(version))
            line["changedKeys"] = .array(proposal.changedKeys.map(JSONValue.string))
            audit.write("publishProposal", line)
            logger.notice("scheduled version published", metadata: metadata.merging(["version": "\(version)"]) { $1 })
        case .ended(let reason):
            line["outcome"] = "refused"
            line["reason"] = .string(reason)
            audit.write("publishProposal", line)
            logger.warning(
                "scheduled version not published", metadata: metadata.merging(["reason": "\(reason)"]) { $1 })
        case .waiting(let reason):
            logger.warning(
                "scheduled version is late, trying again", metadata: metadata.merging(["reason": "\(reason)"]) { $1 })
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
