import Foundation
import StalecastHTTP
import StalecastOutbound
import StalecastSources
import StalecastWebhooks

extension ConfigurationReading {
    /// Opens what a start would open and refuse: files of tokens, secrets and accounts. Each sentence is the start's.
    mutating func checkFiles() {
        check("control.tokenFile", configuration.control.tokenFile) { _ = try TokenFile.load(directory: "", file: $0) }
        check("edge.tls", configuration.edge.tls)
        check("control.tls", configuration.control.tls)
        var credentials = TriggerCredentials()
        for (path, feed) in zip(entryPaths["sources.scopes"] ?? [], configuration.sources.scopes) {
            check("\(path).serviceAccountFile", feed.firebase.serviceAccountFile) {
                _ = try ServiceAccount(contentsOf: $0)
            }
            for file in feed.triggers.tokenFiles {
                check("\(path).triggerTokenFiles", file) { _ = try TriggerToken(try BearerFile(path: $0).token()) }
            }
            for file in feed.triggers.secretFiles {
                check("\(path).triggerSecretFiles", file) { _ = try credentials.key($0) }
            }
        }
        for (path, receiver) in zip(entryPaths["webhooks.receivers"] ?? [], configuration.webhooks.receivers) {
            for file in receiver.secretFiles {
                check("\(path).secretFiles", file) { _ = try Configuration.signingKey($0) }
            }
        }
    }

    private mutating func check(_ path: String, _ tls: Configuration.TLS) {
        guard !tls.pairs.isEmpty else { return }
        do throws(TLSProblem) { _ = try TLSFiles(tls) } catch { note("\(path): \(error)", at: "\(path).certificate") }
    }

    private mutating func check(_ path: String, _ file: String?, _ open: (String) throws -> Void) {
        guard let file else { return }
        do { try open(file) } catch {
            let sentence = "\(error)"
            note("\(path): \(sentence.contains(file) ? sentence : "\(file): \(sentence)")", at: path)
        }
    }
}
