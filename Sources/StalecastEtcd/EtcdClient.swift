package import NIOCore
import Synchronization

/// Calls to an etcd, each to one member and never repeated here: who may repeat what is not this file's to know. After
/// a failure the next call goes to the next member. A call whose task is cancelled ends at once.
package final class EtcdClient: Sendable {
    private struct State {
        var connection: EtcdConnection?
        /// Index of the member that is asked.
        var member = 0
        /// Number of failures. Calls that failed together count once, so that they move on by one member.
        var turn = 0
        var token: String?
        var signedIn: ContinuousClock.Instant?
        /// Sign-in under way, for all callers that wait for a token.
        var signIn: (token: EventLoopFuture<String>, connection: EtcdConnection)?
        /// No sign-in with this password before then; why the last one brought nothing.
        var pause: (password: String, until: ContinuousClock.Instant, why: EtcdFailure)?
        var figures = EtcdFigures()
        var pace: EtcdPace
    }

    private let configuration: EtcdConfiguration
    private let group: any EventLoopGroup
    private let state: Mutex<State>

    /// - Throws: ``EtcdFailure/notSent(_:)`` when a file of TLS or the password cannot be used; later they are read
    ///   again.
    package init(_ configuration: EtcdConfiguration, on group: any EventLoopGroup) throws(EtcdFailure) {
        precondition(!configuration.endpoints.isEmpty, "an etcd has at least one member")
        self.configuration = configuration
        self.group = group
        state = Mutex(
            State(
                pace: EtcdPace(least: configuration.timeout, most: configuration.mostTimeout ?? configuration.timeout)))
        if configuration.endpoints.contains(where: \.isTLS) { _ = try configuration.tls.context() }
        if let credentials = configuration.credentials { _ = try Self.password(credentials.password) }
    }

    /// Figures of the calls so far.
    package var figures: EtcdFigures { state.withLock { $0.figures } }

    /// Time that a call has at present.
    package var timeLimit: Duration { state.withLock { $0.pace.limit } }

    /// Time that etcd takes to answer a call, smoothed; nil before the first answer.
    package var delay: Duration? { state.withLock { $0.pace.smoothed } }

    package func close() { state.withLock { $0.connection.take() }?.close() }

    // MARK: Calls

    package func transact(
        _ transaction: EtcdTransaction, for purpose: EtcdPurpose = .other
    ) async throws(EtcdFailure) -> EtcdTransaction.Result {
        try await call("/etcdserverpb.KV/Txn", transaction.encoded, for: purpose, EtcdTransaction.Result.init)
    }

    /// - Returns: the keys in order; linearizable.
    package func range(_ range: EtcdRange) async throws(EtcdFailure) -> [EtcdKeyValue] {
        var request = ProtobufWriter()
        range.write(to: &request)
        return try await call("/etcdserverpb.KV/Range", request.bytes, for: .other) { (bytes) throws(ProtobufError) in
            try EtcdRange.result(bytes[...])
        }
    }

    /// - Parameter lifetime: whole seconds; etcd's least is 2 s.
    /// - Returns: the lease's id.
    package func grantLease(_ lifetime: Duration) async throws(EtcdFailure) -> Int64 {
        try await lease("Grant", Int64(lifetime / .seconds(1)), field: 2)
    }

    /// - Returns: seconds it has again; 0: there is no such lease any more.
    package func renewLease(_ id: Int64) async throws(EtcdFailure) -> Int64 {
        try await lease("KeepAlive", id, field: 3)
    }

    package func revokeLease(_ id: Int64) async throws(EtcdFailure) { _ = try await lease("Revoke", id, field: 0) }

    /// - Parameter field: of the answer, which is a number.
    private func lease(_ method: String, _ number: Int64, field: UInt64) async throws(EtcdFailure) -> Int64 {
        var request = ProtobufWriter()
        request.number(1, number)
        return try await call("/etcdserverpb.Lease/Lease\(method)", request.bytes, for: .lease) {
            (bytes) throws(ProtobufError) in
            var found: Int64 = 0
            try ProtobufReader.each(bytes[...]) { if $0 == field { found = $1.int64 } }
            return found
        }
    }

    /// Status of one member, by its place in the configuration, over a connection of its own.
    package func status(of member: Int) async throws(EtcdFailure) -> EtcdStatus {
        try await counted(.status) { () throws(EtcdFailure) in
            let connection = try await connect(to: member)
            defer { close(connection) }
            let token = try await token(over: connection)
            let answer = try await connection.call(
                "/etcdserverpb.Maintenance/Status", [], token: token, timeout: timeLimit)
            return try Self.read(answer, EtcdStatus.init)
        }
    }

    /// Watches keys from now on over a connection of its own, to a member after the one of the last watch.
    ///
    /// - Parameters:
    ///   - attempt: chooses the member.
    ///   - onEnd: comes once.
    /// - Returns: what ends it.
    package func watch(
        _ range: EtcdRange, attempt: Int, onNotice: @escaping @Sendable (EtcdWatchResponse) -> Void,
        onEnd: @escaping @Sendable () -> Void
    ) async throws(EtcdFailure) -> @Sendable () -> Void {
        let connection = try await counted(.watch) { () throws(EtcdFailure) in
            try await connect(to: attempt % configuration.endpoints.count, keepAlive: configuration.keepAlive)
        }
        do throws(EtcdFailure) {
            let token = try await token(over: connection)
            let request = EtcdWatchResponse.request(range)
            connection.stream("/etcdserverpb.Watch/Watch", request, token: token) { [self] bytes in
                // What cannot be read ends the watch, and the next one begins with a read.
                guard let notice = try? EtcdWatchResponse(bytes), !notice.isCanceled else {
                    // etcd says no more than that to a token that has expired; a new one has not.
                    forget(token, after: Self.leastTokenAge)
                    return connection.close()
                }
                onNotice(notice)
            } onEnd: { _ in
                connection.close()
                onEnd()
            }
        } catch {
            close(connection)
            throw error
        }
        return { connection.close() }
    }

    // MARK: The way there

    private func call<Answer>(
        _ path: String, _ message: [UInt8], for purpose: EtcdPurpose,
        _ read: ([UInt8]) throws(ProtobufError) -> Answer
    ) async throws(EtcdFailure) -> Answer {
        let (turn, known) = state.withLock { ($0.turn, $0.token) }
        return try await counted(purpose) { () throws(EtcdFailure) in
            do throws(EtcdFailure) {
                return try await call(once: path, message, read)
            } catch {
                if error.isOfMember { moveOn(from: turn) }
                guard error.asksForToken, let known else { throw error }
                // Nothing was done with a token that has expired.
                forget(known)
                return try await call(once: path, message, read)
            }
        }
    }

    private func counted<Answer>(
        _ purpose: EtcdPurpose, _ call: () async throws(EtcdFailure) -> Answer
    ) async throws(EtcdFailure) -> Answer {
        let began = ContinuousClock.now
        func count(_ failure: EtcdFailure?) {
            let seconds = (ContinuousClock.now - began) / .seconds(1)
            state.withLock { $0.figures.calls[purpose, default: .init()].count(failure, seconds: seconds) }
        }
        do throws(EtcdFailure) {
            let answer = try await call()
            count(nil)
            return answer
        } catch {
            count(error)
            throw error
        }
    }

    private func call<Answer>(
        once path: String, _ message: [UInt8], _ read: ([UInt8]) throws(ProtobufError) -> Answer
    ) async throws(EtcdFailure) -> Answer {
        let connection = try await connection()
        let token: String?
        do throws(EtcdFailure) { token = try await self.token(over: connection) } catch {
            // The call itself was not made.
            if case .noAnswer(let cause) = error { throw .notSent(cause) }
            throw error
        }
        let bytes = try await paced(isAnswer: true) { (limit) throws(EtcdFailure) in
            try await connection.call(path, message, token: token, timeout: limit)
        }
        return try Self.read(bytes, read)
    }

    /// Calls with the present limit, and learns from how long it took.
    ///
    /// - Parameter isAnswer: false for what takes several round trips, as opening a connection does.
    private func paced<Value>(
        isAnswer: Bool, _ call: (Duration) async throws(EtcdFailure) -> Value
    ) async throws(EtcdFailure) -> Value {
        let (limit, began) = (timeLimit, ContinuousClock.now)
        do throws(EtcdFailure) {
            let value = try await call(limit)
            if isAnswer { state.withLock { $0.pace.answered(in: began.duration(to: .now)) } }
            return value
        } catch {
            // An error before the limit, such as a refused connection, says nothing of how long answers take.
            if began.duration(to: .now) >= limit { state.withLock { $0.pace.missed() } }
            throw error
        }
    }

    private static let leastTokenAge = Duration.seconds(10)

    private func forget(_ token: String?, after age: Duration = .zero) {
        state.withLock { state in
            guard state.token == token, state.signedIn.map({ $0 + age <= .now }) ?? true else { return }
            state.token = nil
        }
    }

    private static func read<Answer>(
        _ bytes: [UInt8], _ read: ([UInt8]) throws(ProtobufError) -> Answer
    ) throws(EtcdFailure) -> Answer {
        do throws(ProtobufError) { return try read(bytes) } catch { throw .malformed(error.description) }
    }

    private func moveOn(from turn: Int) {
        let old = state.withLock { state -> EtcdConnection? in
            guard state.turn == turn else { return nil }
            state.turn += 1
            state.figures.moves += 1
            state.member = (state.member + 1) % configuration.endpoints.count
            return state.connection.take()
        }
        old?.close()
    }

    private func connection() async throws(EtcdFailure) -> EtcdConnection {
        let (open, member) = state.withLock { ($0.connection, $0.member) }
        if let open, open.isOpen { return open }
        let new = try await connect(to: member)
        // Another call may have been quicker; then there is one too many.
        let kept = state.withLock { state -> EtcdConnection in
            if let other = state.connection, other.isOpen { return other }
            state.connection = new
            return new
        }
        if kept !== new { new.close() }
        return kept
    }

    private func connect(
        to member: Int, keepAlive: Duration? = nil
    ) async throws(EtcdFailure) -> EtcdConnection {
        let endpoint = configuration.endpoints[member]
        return try await paced(isAnswer: false) { (limit) throws(EtcdFailure) in
            try await .open(
                endpoint, tls: endpoint.isTLS ? configuration.tls.context() : nil, timeout: limit,
                keepAlive: keepAlive, on: group)
        }
    }

    private static func password(_ read: () throws -> String) throws(EtcdFailure) -> String {
        do { return try read() } catch { throw .notSent("its password: \(error)") }
    }

    /// etcd's own tokens, which expire. One sign-in at a time, with a pause after one that brought none: each costs a
    /// member a tenth of a second of its processor, and many at once cost it everything.
    private func token(over connection: EtcdConnection) async throws(EtcdFailure) -> String? {
        guard let (user, read) = configuration.credentials else { return nil }
        if let known = state.withLock({ $0.token }) { return known }
        let password = try Self.password(read)
        let found = state.withLock { state -> Result<EventLoopFuture<String>, EtcdFailure>? in
            // Another caller's sign-in may have ended since the first look: reading the password takes time.
            if state.token != nil { return nil }
            if let pause = state.pause, pause.password == password, ContinuousClock.now < pause.until {
                return .failure(pause.why)
            }
            let signIn = state.signIn ?? (beginSignIn(user, password, over: connection), connection)
            state.signIn = signIn
            return .success(signIn.token)
        }
        guard let found else { return state.withLock { $0.token } }
        let signIn = try found.get()
        // A promise of this caller's own: its cancellation must not fail the sign-in that others wait for.
        let token = group.next().makePromise(of: String.self)
        signIn.cascade(to: token)
        return try await token.wait(isSent: false)
    }

    /// Closes a connection of one caller's own, after the sign-in that others wait for and that goes over it.
    private func close(_ connection: EtcdConnection) {
        let signIn = state.withLock { $0.signIn }
        guard let signIn, signIn.connection === connection else { return connection.close() }
        signIn.token.whenComplete { _ in connection.close() }
    }

    /// Signs in for all callers that wait; a caller that is cancelled does not end it.
    private func beginSignIn(
        _ user: String, _ password: String, over connection: EtcdConnection
    ) -> EventLoopFuture<String> {
        let promise = group.next().makePromise(of: String.self)
        // Ends when its time is up at the latest.
        Task {
            do throws(EtcdFailure) {
                let token = try await signIn(user, password, over: connection)
                signedIn(.success(token), password, over: connection)
                promise.succeed(token)
            } catch {
                signedIn(.failure(error), password, over: connection)
                promise.fail(error)
            }
        }
        return promise.futureResult
    }

    private static let signInPause = Duration.seconds(1)

    private func signedIn(
        _ result: Result<String, EtcdFailure>, _ password: String, over connection: EtcdConnection
    ) {
        state.withLock { state in
            state.signIn = nil
            switch result {
            case .success(let token): (state.token, state.signedIn, state.pause) = (token, .now, nil)
            case .failure(let why):
                switch why {
                // A call found that its member is away: the next member is asked at once.
                case .noAnswer where connection.wasClosed: break
                case .noAnswer, .status: state.pause = (password, .now + Self.signInPause, why)
                case .notSent, .malformed, .cancelled: break
                }
            }
        }
    }

    private func signIn(
        _ user: String, _ password: String, over connection: EtcdConnection
    ) async throws(EtcdFailure) -> String {
        try await counted(.signIn) { () throws(EtcdFailure) in
            var request = ProtobufWriter()
            request.bytes(1, user.utf8)
            request.bytes(2, password.utf8)
            let answer = try await connection.call(
                "/etcdserverpb.Auth/Authenticate", request.bytes, token: nil, timeout: timeLimit * 2)
            return try Self.read(answer) { (bytes) throws(ProtobufError) in
                var token = ""
                try ProtobufReader.each(bytes[...]) { field, value in if field == 2 { token = value.text } }
                return token
            }
        }
    }
}
