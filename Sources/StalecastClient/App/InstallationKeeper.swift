import Foundation

/// Keeps an app's ``Installation``: made at first use, the same ever after.
final class InstallationKeeper: Sendable {
    private struct State: Sendable {
        var installation: Installation
        /// A registration or renewal under way; a call that needs a token meanwhile waits for it.
        var flight: Task<Installation, any Error>?
    }

    private let file: RecordFile<Installation>
    private let registry: InstallationRegistry?
    private let environment: ClientEnvironment
    private let state: Locked<State>

    init(options: StalecastOptions, cache: URL, callbacks: CallbackQueue, environment: ClientEnvironment) {
        let file = RecordFile<Installation>(url: cache, onProblem: callbacks.report)
        let stored = file.load()
        var installation = stored ?? Installation(id: options.appInstanceID, at: environment.now())
        if let id = options.appInstanceID, id != installation.id { (installation.id, installation.token) = (id, nil) }
        if installation != stored { file.save(installation) }
        if case .firebase(let hosts) = options.server {
            registry = InstallationRegistry(options: options, host: hosts.installations)
        } else {
            registry = nil
        }
        self.file = file
        self.environment = environment
        state = Locked(State(installation: installation))
    }

    var current: Installation { state.withLock { $0.installation } }

    /// Changes the installation and has it written, if that changed anything.
    func change(_ body: (inout Installation) -> Void) {
        state.withLock { state in
            let before = state.installation
            body(&state.installation)
            if state.installation != before { file.save(state.installation) }
        }
    }

    /// The installation, with a token that is good for a while where the server needs one.
    ///
    /// - Parameter timeout: seconds that reaching the installation service may take.
    /// - Throws: when Firebase could not be reached or refused to register it.
    func valid(timeout: TimeInterval = 60) async throws -> Installation {
        guard let registry else { return current }
        let flight = state.withLock { state in
            if let flight = state.flight { return flight }
            let installation = state.installation
            // Ends with the request's timeout.
            let flight = Task {
                defer { self.state.withLock { $0.flight = nil } }
                return try await registry.valid(installation, now: self.environment.now(), timeout: timeout)
            }
            state.flight = flight
            return flight
        }
        let valid = try await flight.value
        change { ($0.id, $0.token) = (valid.id, valid.token) }
        return current
    }

    /// Waits until everything is on disk.
    func flush() async { await file.flush() }
}
