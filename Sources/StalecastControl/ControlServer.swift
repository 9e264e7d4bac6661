import Hummingbird
import HummingbirdCore
package import Logging
package import NIOCore
import ServiceLifecycle

/// The private listener as a service. It runs until graceful shutdown; then it stops accepting, lets requests that have
/// begun finish, publishes among them, and returns.
package struct ControlServer: Service {
    private let responder: ControlResponder
    private let configuration: ControlConfiguration
    private let eventLoopGroup: any EventLoopGroup
    private let logger: Logger
    private let onBound: @Sendable (_ host: String, _ port: Int) async -> Void

    /// - Parameters:
    ///   - onBound: called once, when connections are accepted, with the port really bound.
    package init(
        _ dependencies: ControlDependencies, configuration: ControlConfiguration, eventLoopGroup: any EventLoopGroup,
        logger: Logger, onBound: @escaping @Sendable (_ host: String, _ port: Int) async -> Void = { _, _ in }
    ) {
        responder = ControlResponder(dependencies, configuration: configuration)
        self.configuration = configuration
        self.eventLoopGroup = eventLoopGroup
        self.logger = logger
        self.onBound = onBound
    }

    /// - Throws: when the address cannot be bound.
    package func run() async throws {
        let (host, onBound) = (configuration.host, onBound)
        let adapter = HummingbirdAdapter(responder: responder)
        let channel = ControlChannel(limits: configuration.connections) { request, writer, _ in
            try await adapter.serve(request, writer)
        }
        let server = Server(
            childChannelSetup: channel,
            configuration: ServerConfiguration(
                address: .hostname(host, port: configuration.port),
                availableConnectionsDelegate: MaximumAvailableConnections(hardCap)),
            onServerRunning: { await onBound(host, $0.localAddress?.port ?? 0) },
            eventLoopGroup: eventLoopGroup, logger: warnings)
        try await server.run()
    }

    /// What Hummingbird says below a warning is said by the daemon already.
    private var warnings: Logger {
        var warnings = logger
        warnings.logLevel = max(logger.logLevel, .warning)
        return warnings
    }

    /// Up to the cap connections are served, up to here they are told 503, beyond they wait in the kernel.
    private var hardCap: Int { configuration.connections.maxConnections + 64 }
}
