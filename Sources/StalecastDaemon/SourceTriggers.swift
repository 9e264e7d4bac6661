import Foundation
import StalecastControl
import StalecastSources
import StalecastStore
import StalecastWebhooks
import StalecastWire

extension TriggerTarget {
    /// - Throws: ``StartError`` for a token or secret that cannot be read.
    init(
        _ feed: Configuration.Feed, _ watcher: SourceWatcher, _ configuration: Configuration, _ store: TemplateStore
    ) throws(StartError) {
        var names: Set<String> = [feed.scope.project.description]
        if let project = configuration.projects.first(where: { $0.id == feed.scope.project }) {
            names.insert(String(project.number))
        }
        if let project = feed.originProject { names.insert(project) }
        let (tokens, verifiers) = try Self.credentials(feed)
        let scope = feed.scope
        let isNumbered = feed.hasOriginNumbers
        self.init(
            scope: scope, projectNames: names, tokens: tokens, verifiers: verifiers,
            knownVersion: { isNumbered ? store.currentTemplates[scope]?.version : nil },
            look: { watcher.look(expecting: isNumbered ? $0 : nil) })
    }

    /// Reads the source's files of tokens and secrets.
    ///
    /// - Throws: ``StartError`` for one that cannot be read.
    static func credentials(
        _ feed: Configuration.Feed
    ) throws(StartError) -> (tokens: [TriggerToken], verifiers: [SignatureVerifier]) {
        var tokens: [TriggerToken] = []
        for file in feed.triggerTokenFiles {
            do { tokens.append(try TriggerToken(try BearerFile(path: file).token())) } catch {
                throw StartError("source of \(feed.scope): triggerTokenFiles: \(file): \(error)")
            }
        }
        var verifiers: [SignatureVerifier] = []
        for file in feed.triggerSecretFiles { verifiers.append(try verifier(file, feed.scope)) }
        return (tokens, verifiers)
    }

    private static func verifier(_ file: String, _ scope: Scope) throws(StartError) -> SignatureVerifier {
        do {
            let text = try String(contentsOfFile: file, encoding: .utf8)
            let check = SignatureCheck(
                key: try VerificationKey(text.trimmingCharacters(in: .whitespacesAndNewlines)))
            return { id, timestamp, signatures, body in
                do {
                    try check.verify(messageID: id, timestamp: timestamp, signatures: signatures, body: body, at: nil)
                    return true
                } catch {
                    return false
                }
            }
        } catch {
            throw StartError("source of \(scope): triggerSecretFiles: \(file): \(error)")
        }
    }
}

extension TriggerDependencies {
    /// Control's `triggers`, answered by the desk.
    init(_ desk: TriggerDesk) {
        self.init(
            admits: { desk.admits(TriggerPost($0)) },
            take: { request, body in
                switch desk.take(TriggerPost(request), body: body) {
                case .taken(let verdicts):
                    .taken(events: verdicts.map(\.json), isLooking: verdicts.contains { $0.result == .looking })
                case .unauthenticated: .unauthenticated
                case .notFound(let sentence): .notFound(sentence)
                case .malformed(let problem): .malformed(status: problem.status, problem.description)
                }
            })
    }
}

extension TriggerPost {
    fileprivate init(_ trigger: TriggerRequest) {
        self.init(
            project: trigger.project, headers: trigger.request.headers, token: trigger.request.query["token"],
            namespace: trigger.request.query["namespace"], isOperator: trigger.isOperator)
    }
}
