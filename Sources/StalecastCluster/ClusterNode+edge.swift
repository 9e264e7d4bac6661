package import StalecastStore

/// A node of another region follows the log and changes nothing in it: it could not, with the rights it has in etcd.
extension ClusterNode {
    /// Waits before the log is read again whose history is not the one that was followed. A core node that knows more
    /// begins another history, which the next read finds; without one an operator has to.
    func awaitRenewal() async {
        stalled(
            "the log has lost entries that this edge has; a core node that has them begins another history, else run "
                + "`stalecast cluster new-epoch` at a core node")
        // Cancelled: the daemon ends.
        try? await Task.sleep(for: Self.applyAgain)
    }
}

/// Authority of an edge's store: it refuses every version, and reads the log for those who ask for the newest.
package struct EdgeAuthority: VersionAuthority {
    private let node: ClusterNode

    package init(_ node: ClusterNode) { self.node = node }

    package func commit(_ pending: Candidate) async throws(StoreError) -> StoredVersion {
        throw .unavailable("this node only follows the cluster's log (cluster.role: edge); publish at a core node")
    }

    package func refresh() async -> Bool { await node.refresh() }
}
