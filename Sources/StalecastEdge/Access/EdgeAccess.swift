package import StalecastAccess

/// Rules for listening and fetching; part of ``EdgeSettings``.
package struct EdgeAccess: Sendable, Equatable {
    package enum Mode: String, Sendable, CaseIterable {
        /// Checks no credentials but `edge.apiKeys`.
        case off
        /// Admits as `off` does; counts and logs callers that would be refused.
        case observe
        /// Grants decide.
        case enforce
    }

    /// Default off.
    package var mode = Mode.off
    /// nil only where `mode` is off.
    package var authorizer: Authorizer?

    package init() {}

    package init(_ mode: Mode, _ authorizer: Authorizer) {
        self.mode = mode
        self.authorizer = authorizer
    }

    package static func == (a: Self, b: Self) -> Bool { a.mode == b.mode && a.authorizer === b.authorizer }

    /// Whether what a client showed in the handshake matters.
    var takesCertificates: Bool { mode != .off && authorizer?.takesCertificates ?? false }

    /// Whether the user's backend is to be asked about a request like this.
    func isForHook(_ credentials: Credentials) -> Bool {
        guard mode != .off, let authorizer, authorizer.hook.isOn else { return false }
        return !authorizer.isOwn(credentials)
    }

    /// Keeps a stream's principal known. Also where `mode` only observes: a reload may enforce later.
    func hold(_ number: Int32) -> PrincipalHold? { number == 0 ? nil : authorizer?.hold(number) }

    /// Principal that a stream's slot stands for, where that matters still.
    func currentPrincipal(of number: Int32) -> Principal? {
        guard mode == .enforce, let authorizer else { return nil }
        return authorizer.currentPrincipal(of: number)
    }
}
