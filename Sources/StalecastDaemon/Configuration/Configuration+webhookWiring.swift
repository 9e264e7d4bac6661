import Foundation
import StalecastOutbound
import StalecastWebhooks
import StalecastWire

extension Configuration {
    /// Rules for webhooks that may be registered.
    var webhookRules: WebhookRules {
        let topics = Dictionary(uniqueKeysWithValues: projects.map { ($0.id, webhookTopics(of: $0.id)) })
        var rules = WebhookRules(
            topics: { topics[$0] ?? [] }, allowed: webhooks.allowedAddresses, filesDirectory: webhooks.filesDirectory,
            httpsOnly: webhooks.httpsOnly)
        rules.defaultProfile = webhooks.addressProfile
        return rules
    }

    /// The webhooks of the file with their secrets, which are read now.
    func configuredWebhooks() throws(StartError) -> [ConfiguredWebhook] {
        var configured: [ConfiguredWebhook] = []
        for receiver in webhooks.receivers {
            var draft = WebhookDraft()
            draft.profile = webhookRules.defaultProfile
            do {
                try draft.take(receiver.document, files: .paths)
            } catch {
                throw StartError("webhook \(receiver.name): \(error)")
            }
            var keys: [SigningKey] = []
            for file in receiver.secretFiles {
                do { keys.append(try Self.signingKey(file)) } catch {
                    throw StartError("webhook \(receiver.name): \(error)")
                }
            }
            configured.append(
                ConfiguredWebhook(name: receiver.name, project: receiver.project, draft: draft, keys: keys))
        }
        return configured
    }

    /// The secret in a file.
    static func signingKey(_ path: String) throws(InvalidValue) -> SigningKey {
        let file: LocalFile
        do { file = try LocalFile(path: path) } catch {
            throw InvalidValue("the secret file \(error); `stalecast webhooks new-secret` prints one to put there")
        }
        do { return try SigningKey(String(decoding: file.bytes, as: UTF8.self)) } catch {
            throw InvalidValue("the secret file \(path) holds no secret: \(error)")
        }
    }

    /// Name of this daemon towards receivers. The host's own name may be anything; what is no DNS name is left out of
    /// it.
    var senderIdentity: WebhookFormatter.Sender {
        let given = webhooks.requestOrigin.isEmpty ? ProcessInfo.processInfo.hostName : webhooks.requestOrigin
        let name = given.filter { $0.utf8.count == 1 && ($0.isLetter || $0.isNumber || $0 == "-" || $0 == ".") }
        return WebhookFormatter.Sender(version: DaemonVersion.text, origin: name.isEmpty ? "localhost" : name)
    }
}
