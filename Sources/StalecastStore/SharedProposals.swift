package import StalecastRecords
import StalecastTemplate
import StalecastWire
import Synchronization

/// Proposals of a cluster: records `proposal/<scope>/<number>`, with the content packed beside them in
/// `proposalPart/<scope>/<chance>/<part>`. Each node copies them into its own table, from which it lists and shows
/// them.
package final class SharedProposals: Sendable {
    private let informer: Informer
    private let table: EntryTable
    let store: TemplateStore
    private let claims = Mutex(ApprovalClaims())
    private let hasSharedOwn = Atomic(false)
    /// Places whose content is in the store's own table, by the ids of open proposals.
    private let copied = Mutex<[String: String]>([:])

    private static let partKind = "proposalPart"
    private static let partBytes = 60_000
    /// Parts of a scope's open proposals together: 15 MB, packed. One proposal is always taken.
    private static let mostParts = 256
    /// No template is larger, unpacked.
    private static let maxContent = 16 << 20
    /// Bytes of the changed keys that a record has, the first ones.
    private static let keyBytes = 32 << 10

    /// - Parameter pause: before what could not be copied or shared is tried again; default 2 s.
    package init(_ informer: Informer, _ store: TemplateStore, pause: Duration = .seconds(2)) {
        self.informer = informer
        table = EntryTable(informer, kind: "proposal", pause: pause)
        self.store = store
    }

    // MARK: Changing

    /// Keeps a new proposal, with its content, under the next number of its scope. It is in the store's own table when
    /// this returns, and soon at every other node.
    func add(
        _ scope: Scope, _ content: [UInt8], _ make: (Int64) -> Proposal
    ) async throws(StoreError) -> Proposal {
        do throws(LogError) { try await table.untilRead() } catch { throw Self.failure(error) }
        let packed = Zlib.packed(content)
        let parts = Self.partsOf(packed.count)
        try mustHaveRoom(all(of: scope), for: parts)
        // A place for each attempt: the parts of two nodes must not mix.
        let place = "\(scope)/\(Epoch.random())"
        do throws(StoreError) {
            try await putParts(packed, in: place)
            let record = try await table.change { () async throws(StoreError) -> (Shared, EntryTable.Change) in
                let known = all(of: scope)
                try mustHaveRoom(known, for: parts)
                // The store may have some of its own that are not shared.
                let last = max(known.map(\.proposal.number).max() ?? 0, try await store.lastProposal(of: scope))
                let record = Shared(make(last + 1), size: content.count, parts: parts, in: place)
                return (record, try record.put(over: nil))
            } failure: {
                Self.failure($0)
            }
            try await mirror(record, content: content)
            await forgetOld(all(of: scope))
            return record.proposal
        } catch {
            switch error {
            case .tooManyProposals, .proposalTooLarge: await removeParts(parts, in: place)
            // A record may be there, or come to be, and need them. Else they take room, and nothing else.
            default: break
            }
            throw error
        }
    }

    /// Compares and sets: the edit is made of what all nodes agree on, again when another node was quicker.
    ///
    /// - Parameter edit: throws where the proposal as it is must not be changed.
    func change(
        _ number: Int64, of scope: Scope, _ edit: (inout Proposal) throws(StoreError) -> Void
    ) async throws(StoreError) -> Proposal {
        typealias Edited = (from: Shared, to: Shared, content: [UInt8]?)
        let edited = try await table.change { () async throws(StoreError) -> (Edited, EntryTable.Change) in
            guard let record = table["\(scope)/\(number)"], let known = Shared(record) else {
                throw .unknownProposal(number)
            }
            var changed = known
            try edit(&changed.proposal)
            if changed.proposal == known.proposal { return ((known, known, nil), .nothing) }
            let content = lacksContent(of: changed) ? await content(of: known) : nil
            if lacksContent(of: changed), content == nil {
                throw .unavailable("the template of proposal \(number) has not come here yet")
            }
            return ((known, changed, content), try changed.put(over: record.revision))
        } failure: {
            Self.failure($0)
        }
        let proposal = edited.to.proposal
        guard proposal != edited.from.proposal else { return proposal }
        try await mirror(edited.to, content: edited.content)
        // The content of a proposal that has ended is not needed any more.
        if proposal.state != .open { await removeParts(edited.from.parts, in: edited.from.place) }
        return proposal
    }

    private static func failure(_ error: LogError?) -> StoreError {
        guard let error else { return .unavailable("other nodes change proposals all the time; nothing was changed") }
        return .unavailable("the cluster's etcd did not take it, or did not say so: \(error.description)")
    }

    private func isOpen(_ proposal: Proposal) -> Bool {
        proposal.state == .open && proposal.expireTime > store.configuration.now()
    }

    /// Every node holds the contents of all open proposals in memory.
    private func mustHaveRoom(_ known: [Shared], for parts: Int) throws(StoreError) {
        let open = known.filter { isOpen($0.proposal) }
        let held = open.reduce(0) { $0 + $1.parts }
        if open.count >= Proposal.mostOpen || !open.isEmpty && held + parts > Self.mostParts {
            throw .tooManyProposals(open.count)
        }
    }

    /// Removes proposals that can no longer be approved, but for the newest.
    private func forgetOld(_ known: [Shared]) async {
        let ended = known.filter { !isOpen($0.proposal) }.sorted { $0.proposal.number > $1.proposal.number }
        for old in ended.dropFirst(Proposal.mostSettled) {
            await removeParts(old.parts, in: old.place)
            // If it is not done, the next proposal does it.
            if let record = table[old.id] { _ = try? await table.make(.remove(old.id, at: record.revision)) }
        }
    }

    // MARK: Contents

    private static func partsOf(_ packed: Int) -> Int { (packed + partBytes - 1) / partBytes }

    private static func part(_ number: Int, in place: String) -> RecordName {
        RecordName(partKind, "\(place)/\(number)")
    }

    /// Stores the parts before the record that names their place.
    private func putParts(_ packed: [UInt8], in place: String) async throws(StoreError) {
        for (number, start) in stride(from: 0, to: packed.count, by: Self.partBytes).enumerated() {
            let part = Array(packed[start..<min(start + Self.partBytes, packed.count)])
            let outcome: RecordOutcome
            do throws(LogError) {
                outcome = try await informer.put(part, to: Self.part(number, in: place), over: nil)
            } catch {
                throw Self.failure(error)
            }
            guard case .done = outcome else { throw .unavailable("a part of another proposal is in its place") }
        }
    }

    private func removeParts(_ count: Int, in place: String) async {
        for number in 0..<count {
            let name = Self.part(number, in: place)
            if let record = await informer.record(name) {
                // What stays takes room, and nothing else.
                _ = try? await informer.remove(name, at: record.revision)
            }
        }
    }

    private func content(of shared: Shared) async -> [UInt8]? {
        var packed: [UInt8] = []
        for number in 0..<shared.parts {
            guard let part = await informer.record(Self.part(number, in: shared.place)) else { return nil }
            packed += part.value
        }
        return Zlib.unpacked(packed, size: shared.size)
    }

    // MARK: Copying

    /// Takes over what other nodes did, until its task is cancelled.
    package func run() async {
        // A proposal whose parts came later is copied then.
        await informer.observe(Self.partKind) { [table] _ in table.wake() }
        await table.follow { [self] in
            // Before a record can take the place of one that is not shared yet.
            guard await shareOwn() else { return false }
            return await table.copyChanged { await take($0) }
        }
    }

    private func take(_ record: SharedRecord) async -> Bool {
        guard let shared = Shared(record) else { return true }
        let content = lacksContent(of: shared) ? await content(of: shared) : nil
        // Its parts are on their way.
        if lacksContent(of: shared), content == nil { return false }
        do throws(StoreError) {
            try await mirror(shared, content: content)
            return true
        } catch {
            store.log(.warning, "a proposal could not be copied", ["error": error.description])
            return false
        }
    }

    /// Whether a proposal is open and its content is not in the store's own table: it is read and unpacked once, not for
    /// each claim.
    private func lacksContent(of shared: Shared) -> Bool {
        shared.proposal.state == .open && copied.withLock { $0[shared.id] } != shared.place
    }

    /// - Parameter content: nil keeps what is in the table.
    private func mirror(_ shared: Shared, content: [UInt8]?) async throws(StoreError) {
        // A claim's age begins when it comes here.
        _ = age(of: shared.proposal)
        try await store.mirror(shared.proposal, content: content)
        copied.withLock { $0[shared.id] = shared.proposal.state == .open ? shared.place : nil }
    }

    /// Time that an approval has been under way, as this node has seen it; nil: there is none.
    func age(of proposal: Proposal) -> Duration? {
        let now = store.configuration.uptime()
        return claims.withLock { $0.age(of: proposal, now: now) }
    }

    private func all(of scope: Scope) -> [Shared] {
        table.entries.values.compactMap { Shared($0) }.filter { $0.proposal.scope == scope }
    }

    /// Shares the proposals that were made before there was a cluster, the decided ones too: their numbers are taken.
    ///
    /// - Returns: false when not all are shared yet.
    private func shareOwn() async -> Bool {
        if hasSharedOwn.load(ordering: .relaxed) { return true }
        do throws(StoreError) {
            for scope in store.currentTemplates.scopes { try await shareOwn(of: scope) }
            hasSharedOwn.store(true, ordering: .relaxed)
            return true
        } catch {
            store.log(.warning, "proposals of this node are not shared yet", ["error": error.description])
            return false
        }
    }

    private func shareOwn(of scope: Scope) async throws(StoreError) {
        let known = all(of: scope)
        let numbers = Set(known.map(\.proposal.number))
        let own = try await store.proposals(of: scope, isOpen: false, limit: Proposal.mostOpen + Proposal.mostSettled)
        // Older ones that have an end were deleted on purpose: they are not shared again.
        let ended = (known.map(\.proposal) + own.filter { !numbers.contains($0.number) }).filter { !isOpen($0) }
        let oldest = ended.map(\.number).sorted(by: >).prefix(Proposal.mostSettled).last ?? 0
        for proposal in own.reversed() where !numbers.contains(proposal.number) {
            guard isOpen(proposal) || proposal.number >= oldest else { continue }
            try await share(proposal)
        }
    }

    private func share(_ proposal: Proposal) async throws(StoreError) {
        let scope = proposal.scope
        var (content, packed, place): ([UInt8], [UInt8], String) = ([], [], "\(scope)/\(Epoch.random())")
        if isOpen(proposal) {
            guard let template = try await store.proposal(proposal.number, of: scope)?.template else { return }
            content = template.json.encoded(JSONStyle(asciiOnly: false))
            packed = Zlib.packed(content)
            try await putParts(packed, in: place)
        }
        let record = Shared(proposal, size: content.count, parts: Self.partsOf(packed.count), in: place)
        // A taken number and an invalid record would fail at every further attempt, so the proposal stays unshared.
        let problem: String
        do {
            if try await table.make(record.put(over: nil)) { return }
            problem = "another has its number"
        } catch let error as LogError {
            throw Self.failure(error)
        } catch {
            problem = "\(error)"
        }
        store.log(.warning, "a proposal is not shared", ["proposal": "proposal/\(record.id)", "error": problem])
        await removeParts(record.parts, in: place)
    }

    /// A record's value.
    private struct Shared {
        var proposal: Proposal
        /// Size of the content, in bytes.
        let size: Int
        let parts: Int
        let place: String

        var id: String { "\(proposal.scope)/\(proposal.number)" }

        init(_ proposal: Proposal, size: Int, parts: Int, in place: String) {
            self.proposal = proposal.keepingKeys(within: keyBytes)
            (self.size, self.parts, self.place) = (size, parts, place)
        }

        /// nil for what is no proposal.
        init?(_ record: SharedRecord) {
            let parts = record.name.id.split(separator: "/")
            // Records of other programs are ignored.
            guard parts.count == 3, let project = try? ProjectID(String(parts[0])),
                let namespace = try? Namespace(String(parts[1])), let value = JSONValue.ifValid(record.value),
                let proposal = value["proposal"].flatMap({
                    Proposal(shared: $0, of: Scope(project: project, namespace: namespace))
                }), let size = value["size"]?.int64, (0...Int64(maxContent)).contains(size),
                let count = value["parts"]?.int64, (0...1000).contains(count)
            else { return nil }
            place = value["place"]?.string ?? record.name.id
            (self.proposal, self.size, self.parts) = (proposal, Int(size), Int(count))
        }

        /// - Throws: ``StoreError/proposalTooLarge(_:)``.
        func put(over revision: Int64?) throws(StoreError) -> EntryTable.Change {
            let value: JSONValue = [
                "proposal": .object(proposal.json), "size": .int(size), "parts": .int(parts), "place": .string(place),
                // Unlike any other node's.
                "nonce": .string(Epoch.random().description),
            ]
            let bytes = value.encoded()
            guard bytes.count <= SharedRecord.maxBytes else { throw .proposalTooLarge(bytes.count) }
            return .put(id, bytes, over: revision)
        }
    }
}
