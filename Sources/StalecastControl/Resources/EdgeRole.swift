import StalecastHTTP
import StalecastWire

/// A node that only follows the cluster's log answers questions about versions, keys and itself. Changes, webhooks and
/// proposals are for the core nodes.
extension ControlOperation {
    /// Whether a node answers it that only follows.
    package var isAnsweredByEdges: Bool { document.isAnsweredByEdges }
}

extension APIOperation {
    /// Operations by other methods than GET that change nothing outside this daemon.
    private static let ownPosts: Set = ["evaluateTemplate", "evaluateTemplateInNamespace", "backUp"]
    private static let coreTags: Set = ["Webhooks", "Proposals"]

    /// Whether a node answers it that only follows; the document names 421 for every other operation.
    var isAnsweredByEdges: Bool {
        if Self.coreTags.contains(tag) { return false }
        return method == "GET" || tag == "Console" || Self.ownPosts.contains(id)
    }
}

extension Control {
    /// Refuses, at an edge node, what only core nodes do.
    func mustBeAnsweredHere(_ operation: ControlOperation) throws(GoogleError) {
        guard let cluster, let addresses = cluster.changesAt?(), !operation.isAnsweredByEdges else { return }
        throw .onlyAtCore(addresses)
    }
}

extension GoogleError {
    /// 421 says that another server answers this request; no client sends it again to the same one, as it may after 503.
    fileprivate static func onlyAtCore(_ addresses: [String]) -> GoogleError {
        let place =
            addresses.isEmpty
            ? "Ask the Control of a core node; none is known here by its cluster.advertise."
            : "Ask the Control of a core node: \(addresses.joined(separator: ", "))."
        let known = JSONValue.texts(addresses)
        return GoogleError(
            421, "FAILED_PRECONDITION",
            "This node only follows the cluster's log (cluster.role: edge); nothing was done. \(place)"
        ).with(detail: OutcomeMapping.outcome("EDGE_NODE", "not_committed", ["addresses": known]))
    }
}
