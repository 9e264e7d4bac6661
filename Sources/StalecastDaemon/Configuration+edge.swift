import CLinux
import Foundation
import StalecastAccess
import StalecastEdge
import StalecastHTTP
import StalecastHub
import StalecastStore

extension Configuration {
    /// Settings of Edge that can change while it runs.
    func edgeSettings(_ authorizer: Authorizer, _ budget: DescriptorBudget) -> EdgeSettings {
        var settings = edge.settings
        settings.access = EdgeAccess(auth.mode, authorizer)
        settings.caps.connections = maxEdgeConnections(budget.edge(under: stalecast_raise_descriptor_limit()))
        settings.apiKeys = edge.apiKeys.map(\.text)
        settings.connections.hosts = edgeHosts
        return settings
    }

    /// Hosts of Edge. A page that reaches loopback only through a browser must not do it under a name of its own.
    private var edgeHosts: HostRule {
        let isOpen = edge.hosts.isEmpty && !(edge.listen.isLoopback && edge.apiKeys.isEmpty)
        return isOpen ? .any : .only(edge.hosts)
    }

    /// Parts that open connections besides listeners and webhooks.
    var descriptorParts: DescriptorBudget.Parts {
        DescriptorBudget.Parts(
            sources: sources.scopes.count { $0.needsEngine }, hasHook: auth.hook.url != nil,
            issuers: auth.issuers.count { $0.keys.isURL || $0.signIn != nil })
    }

    /// The cap on Edge's connections in a process that may have so many descriptors; 1 where the daemon does not start.
    func maxEdgeConnections(descriptors limit: UInt64) -> Int {
        // Too few: the start says so.
        maxEdgeConnections((try? DescriptorBudget(limit: limit, for: descriptorParts))?.edge ?? 0)
    }

    /// - Parameter room: Edge's share of the descriptors.
    func maxEdgeConnections(_ room: Int) -> Int {
        edge.settings.caps.connections == 0 ? max(1, room) : min(edge.settings.caps.connections, max(1, room))
    }

    func edgeOptions(tls: TLSServer?, freshness: (any FreshnessGate)?) throws(StartError) -> EdgeServer.Options {
        var options = EdgeServer.Options()
        options.tls = tls
        options.freshness = freshness
        options.host = try edge.listen.resolvedHost()
        options.port = UInt16(edge.listen.port)
        options.listener = HandedSockets().edge
        options.usesStreamEngine = edge.streamEngine
        options.hasCanaries = edge.canary
        options.threads = edge.threads == 0 ? ProcessInfo.processInfo.activeProcessorCount : edge.threads
        return options
    }

    /// The topics clients name, and each scope's hidden one for Firebase's streams.
    var topicBindings: [TopicBinding] {
        effectiveTopics + scopes.map { TopicBinding(invalidationsOf: $0) }
    }

    var storeConfiguration: StoreConfiguration {
        let projects = projects.map { StoreConfiguration.Project(id: $0.id, number: UInt64($0.number)) }
        var configuration = StoreConfiguration(directory: data, projects: projects)
        configuration.beginEmpty = store.beginEmpty
        configuration.maxVersionsPerScope = store.maxVersions
        configuration.maxVersionAge = store.maxVersionAge
        configuration.minFreeBytes = Int64(store.minFreeSpace)
        return configuration
    }
}

extension ListenAddress {
    /// The host as an address to listen on.
    func resolvedHost() throws(StartError) -> String {
        var found: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(host, nil, nil, &found) == 0, let found else {
            throw StartError("the host \(host) cannot be resolved; give an IP address, for example 127.0.0.1")
        }
        defer { freeaddrinfo(found) }
        var name = [CChar](repeating: 0, count: Int(NI_MAXHOST))
        getnameinfo(
            found.pointee.ai_addr, found.pointee.ai_addrlen, &name, socklen_t(name.count), nil, 0, NI_NUMERICHOST)
        return String(decoding: name.prefix { $0 != 0 }.map { UInt8(truncatingIfNeeded: $0) }, as: UTF8.self)
    }
}

extension Authorizer {
    /// Takes what a configuration says, at start and at a reload.
    func configure(_ configuration: Configuration) {
        configure(
            keys: configuration.auth.keys, plain: configuration.edge.apiKeys.map(\.text),
            anonymous: configuration.auth.anonymous, issuers: configuration.auth.issuers,
            certificates: configuration.auth.certificates)
    }
}
