import Foundation
import Logging
import StalecastRecords
import StalecastStore
import StalecastTemplate
import StalecastWire
import Synchronization

/// Proposals of a cluster: records `proposal/<scope>/<number>`, with the content packed beside them in
/// `proposalPart/<scope>/<chance>/<part>`. Each node copies them into its own table, from which it lists and shows
/// them.
final class ClusterProposals: Sendable {
    private let board: Informer
    private let store: TemplateStore
    private let logger: Logger
    /// Revisions of the records that are copied already.
    private let copied = Mutex<[RecordName: Int64]>([:])
    private let wakes = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))

    private static let kind = "proposal"
    private static let partKind = "proposalPart"
    private static let partBytes = 60_000
    /// Parts of a scope's open proposals together: 15 MB, packed. One proposal is always taken.
    private static let mostParts = 256
    /// No template is larger, unpacked.
    private static let maxContent = 16 << 20
    /// Bytes of the changed keys that a record has, the first ones.
    private static let keyBytes = 32 << 10
    /// Until what this node brings along is shared, at the next attempt.
    private static let sharingPause = Duration.seconds(2)
    /// Number of times a change is decided anew when another node was quicker.
    private static let attempts = 20

    init(_ board: Informer, _ store: TemplateStore, _ logger: Logger) {
        self.board = board
        self.store = store
        self.logger = logger
    }

    var shared: SharedProposals {
        SharedProposals(
            add: { [self] scope, content, make async throws(StoreError) in try await add(scope, content, make) },
            change: { [self] number, scope, edit async throws(StoreError) in
                try await change(Self.name(scope, number), edit)
            },
            publish: { key in PublishID(of: key).description })
    }

    private static func name(_ scope: Scope, _ number: Int64) -> RecordName { RecordName(kind, "\(scope)/\(number)") }

    // MARK: Changing

    private func add(
        _ scope: Scope, _ content: [UInt8], _ make: SharedProposals.Make
    ) async throws(StoreError) -> Proposal {
        try await mustBeRead()
        let packed = Zlib.packed(content)
        try Self.mustHaveRoom(await all(of: scope), for: Self.partsOf(packed.count))
        let place = "\(scope)/\(Epoch.random())"
        do throws(StoreError) {
            try await putParts(packed, in: place)
            return try await add(scope, content, packed: packed.count, in: place, make)
        } catch {
            switch error {
            case .tooManyProposals, .proposalTooLarge: await removeParts(Self.partsOf(packed.count), in: place)
            // A record may be there, or come to be, and need them. Else they take room, and nothing else.
            default: break
            }
            throw error
        }
    }

    /// Every node holds the contents of all open proposals in memory.
    private static func mustHaveRoom(_ known: [Shared], for parts: Int) throws(StoreError) {
        let open = known.filter(\.proposal.isOpen)
        let held = open.reduce(0) { $0 + $1.parts }
        if open.count >= Proposal.mostOpen || !open.isEmpty && held + parts > mostParts {
            throw .tooManyProposals(open.count)
        }
    }

    private func add(
        _ scope: Scope, _ content: [UInt8], packed: Int, in place: String, _ make: SharedProposals.Make
    ) async throws(StoreError) -> Proposal {
        for _ in 0..<Self.attempts {
            let known = await all(of: scope)
            try Self.mustHaveRoom(known, for: Self.partsOf(packed))
            // The store may have some of its own that are not shared.
            let last = max(known.map(\.proposal.number).max() ?? 0, try await store.lastProposal(of: scope))
            let record = Shared(make(last + 1), size: content.count, parts: Self.partsOf(packed), in: place)
            guard try await put(record, over: nil) else { continue }
            try await copy(record.proposal, content)
            await forgetOld(known)
            return record.proposal
        }
        throw .unavailable("other nodes propose all the time; nothing was kept")
    }

    private static func partsOf(_ packed: Int) -> Int { (packed + partBytes - 1) / partBytes }

    /// They are there before the record that names their place.
    private func putParts(_ packed: [UInt8], in place: String) async throws(StoreError) {
        for (number, start) in stride(from: 0, to: packed.count, by: Self.partBytes).enumerated() {
            let part = Array(packed[start..<min(start + Self.partBytes, packed.count)])
            let outcome = try await asking { () async throws(LogError) in
                try await board.put(part, to: RecordName(Self.partKind, "\(place)/\(number)"), over: nil)
            }
            guard case .done = outcome else { throw .unavailable("a part of another proposal is in its place") }
        }
    }

    private func change(_ name: RecordName, _ edit: SharedProposals.Edit) async throws(StoreError) -> Proposal {
        try await mustBeRead()
        for _ in 0..<Self.attempts {
            guard let record = await board.record(name), let known = Shared(record) else {
                throw .unknownProposal(name.id.split(separator: "/").last.flatMap { Int64($0) } ?? 0)
            }
            var changed = known
            try edit(&changed.proposal)
            if changed.proposal == known.proposal { return known.proposal }
            let content = changed.proposal.state == .open ? await self.content(of: known) : nil
            if changed.proposal.state == .open, content == nil {
                throw .unavailable("the template of proposal \(known.proposal.number) has not come here yet")
            }
            guard try await put(changed, over: record.revision) else { continue }
            try await copy(changed.proposal, content)
            if changed.proposal.state != .open { await removeParts(known.parts, in: known.place) }
            return changed.proposal
        }
        throw .unavailable("other nodes change this proposal all the time; nothing was changed")
    }

    /// - Returns: false when something else is there.
    private func put(_ shared: Shared, over revision: Int64?) async throws(StoreError) -> Bool {
        let value = shared.encoded
        guard value.count <= SharedRecord.maxBytes else { throw .proposalTooLarge(value.count) }
        let outcome = try await asking { () async throws(LogError) in
            try await board.put(value, to: shared.name, over: revision)
        }
        if case .done = outcome { return true }
        return false
    }

    private func asking<Value>(_ call: () async throws(LogError) -> Value) async throws(StoreError) -> Value {
        do throws(LogError) { return try await call() } catch {
            throw .unavailable("the cluster's etcd did not take it, or did not say so: \(error.description)")
        }
    }

    private func mustBeRead() async throws(StoreError) {
        if await !board.isRead { throw .unavailable("what the cluster shares has not been read yet") }
    }

    private func removeParts(_ count: Int, in place: String) async {
        for number in 0..<count {
            let name = RecordName(Self.partKind, "\(place)/\(number)")
            // What stays takes room, and nothing else.
            if let record = await board.record(name) { _ = try? await board.remove(name, at: record.revision) }
        }
    }

    /// Removes proposals that can no longer be approved, but for the newest.
    private func forgetOld(_ known: [Shared]) async {
        let ended = known.filter { !$0.proposal.isOpen }.sorted { $0.proposal.number > $1.proposal.number }
        for old in ended.dropFirst(Proposal.mostSettled) {
            await removeParts(old.parts, in: old.place)
            // If it is not done, the next proposal does it.
            if let record = await board.record(old.name) { _ = try? await board.remove(old.name, at: record.revision) }
        }
    }

    // MARK: Copying

    /// Takes over what other nodes did, until its task is cancelled.
    func run() async {
        for kind in [Self.kind, Self.partKind] {
            await board.observe(kind) { [wakes, self] change in
                if case .removed(let name) = change { copied.withLock { $0[name] = nil } }
                wakes.continuation.yield()
            }
        }
        for await _ in wakes.stream {
            // Before a record can take the place of one that is not shared yet.
            guard await board.isRead, await shareOwn() else { continue }
            for record in await board.all(Self.kind) where copied.withLock({ $0[record.name] }) != record.revision {
                await take(record)
            }
        }
    }

    private func take(_ record: SharedRecord) async {
        guard let shared = Shared(record) else { return }
        let content = shared.proposal.state == .open ? await content(of: shared) : nil
        // Its parts are on their way, and ring.
        if shared.proposal.state == .open, content == nil { return }
        do throws(StoreError) {
            try await copy(shared.proposal, content)
            copied.withLock { $0[record.name] = record.revision }
        } catch {
            logger.warning("a proposal could not be copied", metadata: ["error": "\(error)"])
        }
    }

    private func copy(_ proposal: Proposal, _ content: [UInt8]?) async throws(StoreError) {
        try await store.mirror(proposal, content: content)
    }

    private func content(of shared: Shared) async -> [UInt8]? {
        var packed: [UInt8] = []
        for number in 0..<shared.parts {
            let name = RecordName(Self.partKind, "\(shared.place)/\(number)")
            guard let part = await board.record(name) else { return nil }
            packed += part.value
        }
        return Zlib.unpacked(packed, size: shared.size)
    }

    private func all(of scope: Scope) async -> [Shared] {
        await board.all(Self.kind).compactMap { Shared($0) }.filter { $0.proposal.scope == scope }
    }

    /// Shares the proposals that were made before there was a cluster, the decided ones too: their numbers are taken.
    ///
    /// - Returns: false when not all are shared yet; it rings again, then.
    private func shareOwn() async -> Bool {
        if copied.withLock({ $0[Self.ownShared] != nil }) { return true }
        do throws(StoreError) {
            for scope in store.currentTemplates.scopes { try await shareOwn(of: scope) }
            copied.withLock { $0[Self.ownShared] = 0 }
            return true
        } catch {
            logger.warning("proposals of this node are not shared yet", metadata: ["error": "\(error)"])
            Task { [wakes] in
                // It is not cancelled.
                try? await Task.sleep(for: Self.sharingPause)
                wakes.continuation.yield()
            }
            return false
        }
    }

    private func shareOwn(of scope: Scope) async throws(StoreError) {
        let known = await all(of: scope)
        let numbers = Set(known.map(\.proposal.number))
        let own = try await store.proposals(of: scope, isOpen: false, limit: Proposal.mostOpen + Proposal.mostSettled)
        // Older ones were forgotten, not forgotten about.
        let ended = (known.map(\.proposal) + own.filter { !numbers.contains($0.number) }).filter { !$0.isOpen }
        let oldest = ended.map(\.number).sorted(by: >).prefix(Proposal.mostSettled).last ?? 0
        for proposal in own.reversed() where !numbers.contains(proposal.number) {
            guard proposal.isOpen || proposal.number >= oldest else { continue }
            var (content, packed, place): ([UInt8], [UInt8], String) = ([], [], "\(scope)/\(Epoch.random())")
            if proposal.isOpen {
                guard let template = try await store.proposal(proposal.number, of: scope)?.template else { continue }
                content = template.json.encoded(JSONStyle(asciiOnly: false))
                packed = Zlib.packed(content)
                try await putParts(packed, in: place)
            }
            let record = Shared(proposal, size: content.count, parts: Self.partsOf(packed.count), in: place)
            // Neither will be otherwise at the next attempt.
            var problem: String?
            do throws(StoreError) {
                if try await !put(record, over: nil) { problem = "another has its number" }
            } catch {
                guard case .proposalTooLarge = error else { throw error }
                problem = error.description
            }
            guard let problem else { continue }
            logger.warning("a proposal is not shared", metadata: ["proposal": "\(record.name)", "error": "\(problem)"])
            await removeParts(record.parts, in: place)
        }
    }

    private static let ownShared = RecordName(kind, "")

    /// A record's value.
    private struct Shared {
        var proposal: Proposal
        /// Size of the content, in bytes.
        let size: Int
        let parts: Int
        /// Place of its parts.
        let place: String
        let name: RecordName

        init(_ proposal: Proposal, size: Int, parts: Int, in place: String) {
            self.proposal = proposal.keepingKeys(within: keyBytes)
            self.size = size
            self.parts = parts
            self.place = place
            name = ClusterProposals.name(proposal.scope, proposal.number)
        }

        /// nil for what is no proposal.
        init?(_ record: SharedRecord) {
            let parts = record.name.id.split(separator: "/")
            guard parts.count == 3, let project = try? ProjectID(String(parts[0])),
                let namespace = try? Namespace(String(parts[1])), let value = try? JSONValue.parse(record.value),
                let proposal = value["proposal"].flatMap({
                    Proposal(shared: $0, of: Scope(project: project, namespace: namespace))
                }), let size = value["size"]?.int64, (0...Int64(maxContent)).contains(size),
                let count = value["parts"]?.int64, (0...1000).contains(count)
            else { return nil }
            place = value["place"]?.string ?? record.name.id
            (self.proposal, self.size, self.parts, name) = (proposal, Int(size), Int(count), record.name)
        }

        var encoded: [UInt8] {
            let value: JSONValue = [
                "proposal": .object(proposal.json), "size": .int(size), "parts": .int(parts), "place": .string(place),
                // Unlike any other node's.
                "nonce": .string(Epoch.random().description),
            ]
            return value.encoded()
        }
    }
}

extension Proposal {
    fileprivate var isOpen: Bool { state == .open && expireTime > .now() }
}
