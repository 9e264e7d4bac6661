import Foundation
import StalecastAccess
import StalecastCluster
import StalecastWebhooks

/// The one key of a cluster that webhooks' secrets are sealed with, and what the log metadata says of it: a node with
/// another key could open nothing that others seal.
struct ClusterVault: Sendable {
    private let path: String
    private let cluster: String

    init(_ configuration: Configuration) {
        path = configuration.webhooks.keyFile ?? "\(configuration.data)/\(WebhookRegistry.keyFileName)"
        cluster = configuration.cluster.name
    }

    private static let readEvery = Duration.seconds(1)

    /// Compares the key file with the log, before a node makes a key or seals anything. Blocks on the file.
    ///
    /// - Throws: ``StartError`` when the log metadata knows another key than the one that is here.
    func check(_ logMetadata: LogMetadata) throws(StartError) {
        guard let known = logMetadata.keyCheck else { return }
        guard FileManager.default.fileExists(atPath: path) else {
            throw refusal("is not there, and the cluster \(cluster) has one")
        }
        if try own() != known { throw refusal("is not that of the cluster \(cluster)") }
    }

    private func refusal(_ finding: String) -> StartError {
        StartError(
            "webhooks: the key file \(path) \(finding): what other nodes seal could not be opened here; copy the key file of "
                + "a node that runs to that place, or name its copy in webhooks.keyFile, and start again")
    }

    private func own() throws(StartError) -> String {
        do throws(VaultKey.Problem) { return try VaultKey(readFrom: path).check(for: place) } catch {
            throw StartError("webhooks: \(error)")
        }
    }

    /// Tells one control token from another, only for those who have the key.
    ///
    /// - Throws: ``StartError`` when the key cannot be read.
    func mark(of token: SecretDigest) throws(StartError) -> String {
        do throws(VaultKey.Problem) {
            return String(try VaultKey(readFrom: path).check(for: "control token \(token.hexadecimal)").prefix(12))
        } catch {
            throw StartError("webhooks: \(error)")
        }
    }

    private var place: String { "stalecast cluster \(cluster)" }

    /// Looks as long as the node runs, when there is a key: log metadata that names none is given ours, and a node that
    /// was started while etcd was away learns now whether it may go on.
    ///
    /// - Throws: as ``check(_:)``, and when the task is cancelled.
    func keep(_ node: ClusterNode) async throws {
        let own = try own()
        while true {
            switch await node.follower.logMetadata {
            case nil: break
            case let logMetadata? where logMetadata.keyCheck == nil:
                // The result shows a second later, and a claim that failed is repeated then.
                _ = try? await node.claim(keyCheck: own)
            case let logMetadata? where logMetadata.keyCheck != own:
                throw refusal("is not that of the cluster \(cluster)")
            case _?: break
            }
            try await Task.sleep(for: Self.readEvery)
        }
    }
}
