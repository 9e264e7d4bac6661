package import StalecastWire

/// A request without its body, as handlers see it, independent of the server that read it.
package struct ControlRequest: Sendable {
    package let method: String
    /// Percent-encoded, without the query.
    package let path: String
    package let query: QueryParameters
    /// By lower-case name; of a repeated header the first.
    package let headers: [String: String]

    /// - Parameter target: as on the request line.
    package init(method: String, target: String, headers: [String: String]) {
        self.method = method
        let parts = Self.originForm(target).split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        path = parts.isEmpty ? "/" : String(parts[0])
        query = QueryParameters(parts.count > 1 ? String(parts[1]) : "")
        self.headers = headers
    }

    /// Who calls, as far as a version's metadata tells it: the Node Admin SDK names itself.
    package var updateOrigin: UpdateOrigin {
        (headers["x-firebase-client"] ?? "").contains("fire-admin-node/") ? .adminSDKNode : .restAPI
    }

    /// Proxies may send `http://host/path`; what follows the host counts.
    private static func originForm(_ target: String) -> Substring {
        guard !target.hasPrefix("/"), let scheme = target.firstRange(of: "://") else { return target[...] }
        let rest = target[scheme.upperBound...]
        guard let slash = rest.firstIndex(of: "/") else { return "/" }
        return rest[slash...]
    }
}
