import StalecastOutbound
import StalecastTestServers
import StalecastWire

/// An engine that may speak to 127.0.0.0/8, ended with the test.
struct EngineFixture {
    let engine: OutboundEngine
    let policy: AddressPolicy

    static func running<Value>(
        _ configuration: OutboundConfiguration = OutboundConfiguration(), _ body: (EngineFixture) async throws -> Value
    ) async throws -> Value {
        let engine = try OutboundEngine(configuration)
        let policy = try AddressPolicy(allow: [CIDR("127.0.0.0/8")])
        do {
            let value = try await body(EngineFixture(engine: engine, policy: policy))
            await engine.shutdown(grace: .zero)
            return value
        } catch {
            await engine.shutdown(grace: .zero)
            throw error
        }
    }

    func request(_ url: String, _ adjust: (inout OutboundRequest) -> Void = { _ in }) throws -> OutboundRequest {
        // On a busy machine even loopback takes seconds.
        let limits = OutboundLimits(connectTimeout: .seconds(60), timeout: .seconds(60))
        var request = OutboundRequest(url: try OutboundURL(url), limits: limits, policy: policy)
        adjust(&request)
        return request
    }

    func send(_ url: String, _ adjust: (inout OutboundRequest) -> Void = { _ in }) async throws -> OutboundOutcome {
        await engine.send(try request(url, adjust))
    }
}

extension OutboundOutcome {
    var status: Int? {
        guard case .answered(let status, _, _, _) = result else { return nil }
        return status
    }

    var text: String? {
        guard case .answered(_, _, let body, _) = result else { return nil }
        return String(decoding: body, as: UTF8.self)
    }

    var failure: OutboundFailure.Reason? {
        guard case .failed(let failure) = result else { return nil }
        return failure.reason
    }
}
