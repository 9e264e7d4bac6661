import Foundation
import StalecastAccess
package import StalecastEtcd
import StalecastWire

extension Configuration {
    /// The etcd that several daemons share.
    package struct Etcd: Sendable, Equatable {
        /// Members' client ports, all with TLS or none; empty outside a cluster.
        package var endpoints: [EtcdEndpoint] = []
        /// nil: etcd asks for no password. With `passwordFile`.
        package var user: String?
        /// Holds the password on its first line.
        package var passwordFile: String?
        /// PEM file of the authorities of etcd's certificates; nil for the system's.
        package var caFile: String?
        /// PEM file of the certificate we show; nil shows none. With `key`.
        package var certificate: String?
        /// PEM file of its key.
        package var key: String?
    }

    /// Settings of this daemon's part in a cluster.
    package struct Cluster: Sendable, Equatable {
        /// `/stalecast/<name>` in etcd is the cluster's.
        package var name = "default"
        /// Empty: this host's name; see ``effectiveNode``.
        package var node = ""
        /// Control's URL for other people's eyes; nil tells none.
        package var advertise: String?
        package var role = Role.core
        /// Reading of a fetch without a cursor; at an edge `local` unless the configuration says otherwise.
        package var fetch = Fetch.verified
        /// Time that fetches are answered without a look at etcd; zero: for ever.
        package var maxUnverified: Duration = .zero
        package var readiness = Readiness.degraded

        /// Part that a node has in its cluster.
        package enum Role: String, Sendable, CaseIterable {
            /// Publishes, delivers to webhooks and watches sources.
            case core
            /// Only follows the log, and serves clients.
            case edge
        }

        /// Whether a fetch without a cursor looks at etcd first.
        package enum Fetch: String, Sendable, CaseIterable { case verified, local }

        /// Answer of `/readyz` while etcd cannot be reached.
        package enum Readiness: String, Sendable, CaseIterable {
            /// 200, and degraded.
            case degraded
            /// 503.
            case strict
        }

        /// `node`, or what is legal of this host's name: 1–63 of letters, digits, `-`, `.` and `_`.
        package var effectiveNode: String {
            if !node.isEmpty { return node }
            let legal = ProcessInfo.processInfo.hostName.utf8.filter(Self.isLegal).prefix(63)
            return legal.isEmpty ? "node" : String(decoding: legal, as: UTF8.self)
        }

        static func isLegal(_ byte: UInt8) -> Bool { byte.isASCIIAlphanumeric || "-._".utf8.contains(byte) }
    }

    /// Fingerprints of the settings that all nodes should share, by section of the file: two nodes with equal settings
    /// have equal fingerprints. The content of files that the settings name is not included. An edge has fingerprints
    /// only of what it serves.
    package var sharedSettings: [String: String] {
        var texts: [String: String] = [:]
        for option in ConfigurationOption.all where !Self.isOwn(option.path) {
            let part = option.section.isEmpty ? option.path : option.section
            if isEdge, !Self.edgeParts.contains(part) { continue }
            texts[part, default: ""] += "\(option.path): \(option.spelled(self))\n"
        }
        return texts.mapValues { String(SecretDigest(of: $0).hexadecimal.prefix(12)) }
    }

    private static let edgeParts: Set = ["projects", "topics", "releases"]

    /// True for settings that are a node's own: its addresses, its machine, its files.
    private static func isOwn(_ path: String) -> Bool {
        let names = [
            "data", "edge.listen", "edge.hosts", "edge.proxied", "edge.streamEngine", "edge.threads", "edge.canary",
            "edge.maxConnections", "control.listen", "control.hosts", "control.proxied", "control.maxConnections",
            "control.tokenFile", "control.tokenEnabled", "store.minFreeSpace", "cluster.node", "cluster.advertise",
            "cluster.role",
            "webhooks.keyFile", "webhooks.filesDirectory", "auth.hook.caFile",
        ]
        let sections = ["edge.tls.", "control.tls.", "store.etcd.", "audit.", "log.", "shutdown."]
        return names.contains(path) || sections.contains { path.hasPrefix($0) }
    }

    /// Whether the order of versions is etcd's.
    package var isClustered: Bool { !store.etcd.endpoints.isEmpty }

    /// Whether this daemon only follows that order.
    package var isEdge: Bool { isClustered && cluster.role == .edge }
}
