import StalecastRecords
import StalecastTestRecords
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(5))) struct InformerTests {
    /// A board that follows while the test lasts, and what an observer of kind `k` heard.
    private struct Followed {
        let records = MemoryRecords()
        let board: Informer
        let heard = Heard()
        private let task: Task<Void, Never>

        init() async {
            board = Informer(records, pause: .milliseconds(1))
            let heard = heard
            await board.observe("k") { heard.take($0) }
            let board = board
            task = Task { await board.run() }
        }

        func end() { task.cancel() }

        func wait(_ condition: () async -> Bool) async {
            while await !condition(), !Task.isCancelled { try? await Task.sleep(for: .milliseconds(1)) }
        }

        /// Waits until the board has it, or has it no more.
        func wait(_ id: String, _ value: [UInt8]?) async {
            await wait { await board.record(RecordName("k", id))?.value == value }
        }
    }

    /// Keeps what was told, and what it adds up to.
    private final class Heard: Sendable {
        private let state = Mutex((count: 0, complete: 0, values: [String: [UInt8]]()))

        var values: [String: [UInt8]] { state.withLock { $0.values } }
        var count: Int { state.withLock { $0.count } }
        var complete: Int { state.withLock { $0.complete } }

        func take(_ change: Informer.Change) {
            state.withLock { state in
                if change == .complete { return state.complete += 1 }
                state.count += 1
                switch change {
                case .put(let record): state.values[record.name.id] = record.value
                case .removed(let name): state.values[name.id] = nil
                case .complete: break
                }
            }
        }
    }

    @Test func changesOfOthersAreTold() async throws {
        let followed = await Followed()
        defer { followed.end() }
        let (a, b) = (RecordName("k", "a"), RecordName("k", "b/c"))
        guard case .done(let made?, _) = try await followed.records.put([1], to: a, over: nil, lease: nil) else {
            throw LogError.unknown("put")
        }
        await followed.wait("a", [1])
        _ = try await followed.records.put([2], to: a, over: made.revision, lease: nil)
        _ = try await followed.records.put([3], to: b, over: nil, lease: nil)
        _ = try await followed.records.put([4], to: RecordName("other", "a"), over: nil, lease: nil)
        await followed.wait("b/c", [3])
        #expect(followed.heard.values == ["a": [2], "b/c": [3]])
        let revision = try #require(await followed.board.record(b)).revision
        _ = try await followed.records.remove(b, at: revision)
        await followed.wait("b/c", nil)
        #expect(followed.heard.values == ["a": [2]])
        // Who comes later hears of what there is.
        let late = Heard()
        await followed.board.observe("k") { late.take($0) }
        #expect(late.values == ["a": [2]] && late.count == 1 && late.complete == 1)
    }

    @Test func theLastStateOutlivesTheStoreAndTheDifferenceIsTold() async throws {
        let followed = await Followed()
        defer { followed.end() }
        for id in ["a", "b", "c"] {
            _ = try await followed.records.put([1], to: RecordName("k", id), over: nil, lease: nil)
        }
        await followed.wait("c", [1])
        followed.records.setAway(true)
        await followed.wait { await followed.board.problem != nil }
        followed.records.change(secretly: RecordName("k", "a"), to: nil)
        followed.records.change(secretly: RecordName("k", "b"), to: [2])
        #expect(followed.heard.values.count == 3)
        let count = followed.heard.count
        followed.records.setAway(false)
        await followed.wait("b", [2])
        #expect(followed.heard.values == ["b": [2], "c": [1]])
        #expect(followed.heard.count == count + 2)
        #expect(await followed.board.problem == nil)
        await followed.wait { followed.heard.complete == 2 }
    }

    @Test func ownChangesAreThereAtOnce() async throws {
        let followed = await Followed()
        defer { followed.end() }
        let name = RecordName("k", "a")
        guard case .done(let made?, _) = try await followed.board.put([1], to: name, over: nil),
            case .conflict(made?, _) = try await followed.board.put([2], to: name, over: nil)
        else { throw LogError.unknown("put") }
        #expect(followed.heard.values == ["a": [1]])
        guard case .done(nil, _) = try await followed.board.remove(name, at: made.revision) else {
            throw LogError.unknown("remove")
        }
        #expect(followed.heard.values.isEmpty)
        await #expect(throws: LogError.self) {
            try await followed.board.put([UInt8](repeating: 0, count: SharedRecord.maxBytes + 1), to: name, over: nil)
        }
    }

    /// Done, but the answer is lost: the same call again finds out.
    @Test func lostAnswersAreFoundOut() async throws {
        let followed = await Followed()
        defer { followed.end() }
        let name = RecordName("k", "a")
        await followed.wait { await followed.board.isRead }
        followed.records.loseAnswers(1)
        guard case .done(let made?, _) = try await followed.board.put([1], to: name, over: nil) else {
            throw LogError.unknown("put")
        }
        // Bells are rung for it as well, and read: those answers may be the ones that are lost.
        followed.records.loseAnswers(1)
        guard case .done(nil, _) = try await followed.board.remove(name, at: made.revision) else {
            throw LogError.unknown("remove")
        }
        followed.records.loseAnswers(100)
        await #expect {
            try await followed.board.put([1], to: name, over: nil)
        } throws: { if case LogError.unknown = $0 { true } else { false } }
    }

    /// A snapshot is restored: revisions go back, and come again with other contents.
    @Test func aRestoredStoreIsReadAnew() async throws {
        let followed = await Followed()
        defer { followed.end() }
        let name = RecordName("k", "a")
        guard case .done(let old?, _) = try await followed.board.put([1], to: name, over: nil),
            case .done(let new?, _) = try await followed.board.put([2], to: name, over: old.revision)
        else { throw LogError.unknown("put") }
        await followed.wait { await followed.board.isRead }
        followed.records.restore([old], revision: old.revision)
        await followed.wait("a", [1])
        followed.records.restore(
            [SharedRecord(name: name, value: [3], revision: new.revision, creation: old.creation)],
            revision: new.revision)
        await followed.wait("a", [3])
        #expect(followed.heard.values == ["a": [3]])
    }
}
