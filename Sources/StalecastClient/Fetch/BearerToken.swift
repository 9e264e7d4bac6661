import Foundation

/// Request headers, whose names an app may write in any case.
extension [String: String] {
    var hasAuthorization: Bool { keys.contains { $0.lowercased() == "authorization" } }

    /// Replaces the header, so that it is not sent twice.
    mutating func setAuthorization(_ value: String) {
        self = filter { $0.key.lowercased() != "authorization" }
        self["Authorization"] = value
    }
}

/// The token that fetches show, as ``ConnectionOptions/tokenProvider`` gave it. A fetch that needs one while the
/// provider is being asked waits for the same answer.
final class BearerToken: Sendable {
    private struct State: Sendable {
        var token: String?
        var asking: Task<String?, Never>?
    }

    private let state = Locked(State())

    /// The token, from the provider unless there is one that was not refused.
    ///
    /// - Parameters:
    ///   - refused: the token that the server has answered 401.
    ///   - limit: seconds for which the provider is waited for.
    /// - Returns: nil when there is none.
    func value(
        from provider: @escaping @Sendable () async throws -> String, insteadOf refused: String? = nil,
        within limit: TimeInterval
    ) async -> String? {
        let (known, asking) = state.withLock { state -> (String?, Task<String?, Never>?) in
            if let token = state.token, token != refused { return (token, nil) }
            if let asking = state.asking { return (nil, asking) }
            // Ends with the provider's answer; no fetch waits for it longer than the limit.
            let asking = Task { [self] in
                // The app knows why it has no token; the server answers 401.
                let token = try? await provider()
                self.state.withLock { state in
                    state.asking = nil
                    if let token { state.token = token }
                }
                return token
            }
            state.asking = asking
            return (nil, asking)
        }
        guard let asking else { return known }
        return await Self.first(of: asking, within: limit)
    }

    private static func first(of asking: Task<String?, Never>, within limit: TimeInterval) async -> String? {
        await withCheckedContinuation { continuation in
            let waiting = Locked<CheckedContinuation<String?, Never>?>(continuation)
            @Sendable func end(_ token: String?) {
                let continuation = waiting.withLock { waiting in
                    defer { waiting = nil }
                    return waiting
                }
                continuation?.resume(returning: token)
            }
            // Ends at the limit, or when the answer came.
            let timer = Task {
                // Cancelled means that there was an answer.
                try? await Task.sleep(nanoseconds: UInt64(max(0, min(limit, 3600)) * 1e9))
                end(nil)
            }
            // Ends with the provider's answer.
            Task {
                end(await asking.value)
                timer.cancel()
            }
        }
    }
}
