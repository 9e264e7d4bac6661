/// All shared records in memory, kept in step with what is stored: a watch event, a read, the difference. While the
/// store is away the last state stays; after a lost watch everything is read again, and the difference is told.
///
/// An actor, because it waits for the store between changes, and observers must hear of changes in their order.
package actor Informer {
    package enum Change: Sendable, Hashable {
        case put(SharedRecord)
        case removed(RecordName)
        /// Everything that there is has been told: what an observer knows besides is no more.
        case complete
    }

    private let records: any SharedRecords
    private var backoff: Backoff
    private var chance = SystemRandomNumberGenerator()
    private var held: [RecordName: SharedRecord] = [:]
    /// Revisions of changes made here that no read has seen yet; a read that began before one is older.
    private var ownChanges: [RecordName: Int64] = [:]
    private var highest: Int64 = 0
    private var observers: [String: [@Sendable (Change) -> Void]] = [:]
    /// Whether everything was read at least once.
    package private(set) var isRead = false
    /// Reason why the records in memory do not follow the store; nil while they do.
    package private(set) var problem: String? = "the shared records have not been read yet"

    /// A call is made so often before its outcome stays unknown.
    private static let attempts = 4
    /// Names in one read.
    private static let pageSize = 100

    /// - Parameter pause: before the next watch, at most, once; later longer. Default 200 ms.
    package init(_ records: any SharedRecords, pause: Duration = .milliseconds(200)) {
        self.records = records
        backoff = Backoff(from: pause)
    }

    package func record(_ name: RecordName) -> SharedRecord? { held[name] }

    /// Records of a kind, in no order.
    package func all(_ kind: String) -> [SharedRecord] { held.values.filter { $0.name.kind == kind } }

    /// Hears of the records of a kind that there are, and of every change from now on, in order; it must be quick.
    package func observe(_ kind: String, _ observer: @escaping @Sendable (Change) -> Void) {
        observers[kind, default: []].append(observer)
        for record in all(kind) { observer(.put(record)) }
        if isRead { observer(.complete) }
    }

    // MARK: Following

    /// Follows until its task is cancelled.
    package func run() async {
        while !Task.isCancelled {
            do throws(LogError) {
                for await watchEvent in try await records.watch() { try await take(watchEvent) }
                problem = "the watch on the shared records ended"
            } catch {
                problem = error.description
            }
            // Cancelled: the loop ends.
            try? await Task.sleep(for: backoff.next(&chance))
        }
    }

    private func take(_ watchEvent: RecordWatchEvent) async throws(LogError) {
        switch watchEvent {
        case .opened:
            // The watch is open before everything is read, so that no change falls between the two.
            try await readAll()
            isRead = true
            problem = nil
            backoff.end()
            for observer in observers.values.joined() { observer(.complete) }
        case .changed(let names):
            for start in stride(from: 0, to: names.count, by: Self.pageSize) {
                let some = Array(names[start..<min(start + Self.pageSize, names.count)])
                apply(try await records.records(some), of: some)
            }
        }
    }

    private func readAll() async throws(LogError) {
        let before = highest
        let page = try await records.all()
        // Another history, which knows nothing of what was changed here.
        if page.revision < before {
            ownChanges = [:]
            highest = page.revision
        }
        apply(page, of: Set(held.keys).union(page.records.map(\.name)))
    }

    private func apply(_ page: RecordPage, of names: some Collection<RecordName>) {
        highest = max(highest, page.revision)
        let found = Dictionary(page.records.map { ($0.name, $0) }) { $1 }
        // A page that is older than a change made here says nothing about that record.
        for name in names where ownChanges[name] ?? 0 <= page.revision {
            ownChanges[name] = nil
            set(name, found[name])
        }
    }

    private func set(_ name: RecordName, _ record: SharedRecord?) {
        guard held[name] != record else { return }
        held[name] = record
        let change = record.map { Change.put($0) } ?? .removed(name)
        for observer in observers[name.kind] ?? [] { observer(change) }
    }

    // MARK: Changing

    /// Puts a record; what comes of it is here when this returns.
    ///
    /// - Parameters:
    ///   - value: distinct from every other node's, where it matters whose it is.
    ///   - revision: of the record that is replaced; nil makes a new one.
    package func put(
        _ value: [UInt8], to name: RecordName, over revision: Int64?, lease: RecordLease? = nil
    ) async throws(LogError) -> RecordOutcome {
        guard value.count <= SharedRecord.maxBytes else {
            throw .notDone("a shared record has at most \(SharedRecord.maxBytes) bytes, this one has \(value.count)")
        }
        let records = records
        return try await change(name) { () throws(LogError) in
            try await records.put(value, to: name, over: revision, lease: lease)
        } isDone: { record in
            record.map { $0.value == value && $0.revision > revision ?? 0 } ?? false
        }
    }

    /// Puts several records in one step, or none, with one call: see ``RecordPut/most``.
    ///
    /// - Returns: whether it is done. If not, what stands in its place is known here.
    package func put(_ puts: [RecordPut]) async throws(LogError) -> Bool {
        let (isDone, page) = try await records.put(puts)
        let found = Dictionary(page.records.map { ($0.name, $0) }) { $1 }
        for put in puts { learn(put.name, found[put.name], page.revision) }
        return isDone
    }

    /// Removes a record; it is gone here when this returns.
    package func remove(_ name: RecordName, at revision: Int64) async throws(LogError) -> RecordOutcome {
        let records = records
        return try await change(name) { () throws(LogError) in
            try await records.remove(name, at: revision)
        } isDone: {
            $0 == nil
        }
    }

    /// - Parameter isDone: whether what is there can only be, or is as good as, what an earlier call has done.
    private func change(
        _ name: RecordName, _ call: () async throws(LogError) -> RecordOutcome, isDone: (SharedRecord?) -> Bool
    ) async throws(LogError) -> RecordOutcome {
        var isUnknown = false
        var attempt = 0
        while true {
            attempt += 1
            do throws(LogError) {
                switch try await call() {
                case .done(let record, let revision):
                    learn(name, record, revision)
                    return .done(record, revision: revision)
                case .conflict(let record, let revision):
                    learn(name, record, revision)
                    if isUnknown, isDone(record) { return .done(record, revision: revision) }
                    return .conflict(record, revision: revision)
                }
            } catch {
                if case .unreadable = error { throw error }
                if case .unknown = error { isUnknown = true }
                // What an earlier call may have done is not undone by one that was not made.
                if attempt == Self.attempts || Task.isCancelled {
                    throw isUnknown ? .unknown(error.description) : error
                }
            }
        }
    }

    private func learn(_ name: RecordName, _ record: SharedRecord?, _ revision: Int64) {
        guard revision >= ownChanges[name] ?? 0, revision >= held[name]?.revision ?? 0 else { return }
        ownChanges[name] = revision
        highest = max(highest, revision)
        set(name, record)
    }
}
