import Foundation
import StalecastOutbound
import StalecastSources
import StalecastStore
import StalecastWebhooks
import StalecastWire

/// Reads the sources' files of trigger tokens and secrets. One key for one file, however many sources name it.
struct TriggerCredentials {
    private var keys: [String: SignedPost.Key] = [:]

    /// - Throws: ``StartError`` for a file that cannot be read or holds something else.
    mutating func read(_ feed: Configuration.Feed) throws(StartError) -> (
        tokens: [TriggerToken], keys: [SignedPost.Key]
    ) {
        var tokens: [TriggerToken] = []
        for file in feed.triggers.tokenFiles {
            do { tokens.append(try TriggerToken(try BearerFile(path: file).token())) } catch {
                throw StartError("source of \(feed.scope): triggerTokenFiles: \(file): \(error)")
            }
        }
        var senders: [SignedPost.Key] = []
        for file in feed.triggers.secretFiles {
            do { senders.append(try key(file)) } catch {
                throw StartError("source of \(feed.scope): triggerSecretFiles: \(file): \(error)")
            }
        }
        return (tokens, senders)
    }

    mutating func key(_ file: String) throws -> SignedPost.Key {
        if let key = keys[file] { return key }
        let text = String(decoding: try LocalFile(path: file).bytes, as: UTF8.self)
        let check = SignatureCheck(key: try VerificationKey(text.trimmingCharacters(in: .whitespacesAndNewlines)))
        let key = SignedPost.Key { post, body in
            do {
                try check.verify(
                    messageID: post.id, timestamp: post.timestamp, signatures: post.signatures, body: body, at: nil)
                return true
            } catch {
                return false
            }
        }
        keys[file] = key
        return key
    }
}

extension TriggerService.Target {
    init(
        _ feed: Configuration.Feed, _ watcher: SourceWatcher, _ configuration: Configuration, _ store: TemplateStore,
        _ credentials: (tokens: [TriggerToken], keys: [SignedPost.Key])
    ) {
        var names: Set<String> = [feed.scope.project.description]
        if let project = configuration.projects.first(where: { $0.id == feed.scope.project }) {
            names.insert(String(project.number))
        }
        if let project = feed.firebase.project { names.insert(project) }
        let scope = feed.scope
        let isNumbered = feed.hasOriginNumbers
        self.init(
            scope: scope, projectNames: names, tokens: credentials.tokens, keys: credentials.keys,
            knownVersion: { isNumbered ? store.currentTemplates[scope]?.version : nil },
            poll: { watcher.poll(expecting: isNumbered ? $0 : nil) })
    }
}
