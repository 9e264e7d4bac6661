package import StalecastWire

package struct KnownClient: Sendable, Hashable {
    /// Raw values are on the wire.
    package enum State: String, Sendable {
        case current, behind, failed
        /// Client that left after it was told of the version, without having it.
        case lost
        /// Client that never said what it has.
        case unknown
    }

    /// nil where names are not kept.
    package let id: String?
    /// The ledger's key; nil where names are not kept.
    package let address: UInt64?
    package let app: String
    package let sdk: String
    /// 0 is not known.
    package let held: VersionNumber
    package let active: VersionNumber
    /// Time when the oldest version in memory was announced that it has not; nil when it has all.
    package let behindSince: Timestamp?
    /// Seconds since it was seen; 0 while it is connected.
    package let secondsUnseen: Double
    package let isLive: Bool
    package let state: State
    package let error: String
}

package struct ClientGroups: Sendable, Hashable {
    /// Raw values are on the wire.
    package enum Trait: String, Sendable, CaseIterable { case sdk, app, held, address }

    /// Most first.
    package var counts: [(key: String, count: Int)] = []

    package init() {}

    package static func == (a: Self, b: Self) -> Bool { a.counts.elementsEqual(b.counts) { $0 == $1 } }
    package func hash(into hasher: inout Hasher) { hasher.combine(counts.count) }
}

extension RolloutTracker {
    /// Clients of a version's audience that have not reached a stage, those included that left after they were told.
    ///
    /// - Returns: how many there are and the first `limit` of them; nil where the version is not in memory.
    package func laggards(
        of scope: Scope, _ version: VersionNumber?, stage: RolloutStatus.Stage, limit: Int
    ) -> (version: VersionNumber, total: Int, clients: [KnownClient])? {
        read { versions, now in
            guard let rollout = versions.rollout(scope, version) else { return nil }
            let places = versions.laggards(scope, rollout, stage)
            return (
                rollout.version, places.count * versions.table.weight,
                places.prefix(limit).map { versions.client($0, rollout, at: now) }
            )
        }
    }

    /// Clients of a version's audience that have not reached a stage, by a trait; `address` writes the ledger's key.
    package func laggards(
        of scope: Scope, _ version: VersionNumber?, stage: RolloutStatus.Stage, by trait: ClientGroups.Trait,
        address: (UInt64) -> String
    ) -> (version: VersionNumber, total: Int, groups: ClientGroups)? {
        read { versions, _ in
            guard let rollout = versions.rollout(scope, version) else { return nil }
            let places = versions.laggards(scope, rollout, stage)
            return (
                rollout.version, places.count * versions.table.weight,
                versions.groups(places, by: trait, address: address)
            )
        }
    }

    /// One client by its id; nil where no client of that id is counted.
    package func client(_ id: ClientIdentity, in scope: Scope, _ version: VersionNumber?) -> KnownClient? {
        read { versions, now in
            guard let place = versions.table.place(of: id.key(in: scope)) else { return nil }
            return versions.client(place, versions.rollout(scope, version), at: now)
        }
    }

    /// Clients that would hear of a change on `topics` now.
    package struct Audience: Sendable, Hashable {
        /// Identified and connected, or gone for a moment.
        package var clients = 0
        package var streams = 0
        /// Identified in the last 25 h.
        package var seen = 0
        /// Groups of the connected ones.
        package var held = ClientGroups()
        package var apps = ClientGroups()
        package var sdks = ClientGroups()
    }

    /// - Parameter topics: nil is all of the scope.
    package func audience(of scope: Scope, topics: Set<Topic.Index>?) -> Audience {
        read { versions, _ in
            var audience = Audience()
            let (table, places) = (versions.table, versions.places(of: scope))
            let present = places.filter { place in
                table.entries[place].isPresent
                    && (topics.map { !versions.topics(of: place).isDisjoint(with: $0) } ?? true)
            }
            audience.seen = places.count * table.weight
            audience.clients = present.count * table.weight
            audience.streams = present.reduce(0) { $0 + Int(table.entries[$1].streams) } * table.weight
            audience.held = versions.groups(present, by: .held) { _ in "" }
            audience.apps = versions.groups(present, by: .app) { _ in "" }
            audience.sdks = versions.groups(present, by: .sdk) { _ in "" }
            return audience
        }
    }

    package struct Figures: Sendable, Hashable {
        package var known = 0
        package var present = 0
        package var weight = 1
        package var byteCount = 0
        package var keepsNames = true
        /// Connected clients of each scope by how many versions they are behind: 0 to 3, 4 and more, not known.
        package var behind: [Scope: [Int]] = [:]
    }

    package var figures: Figures {
        read { versions, _ in
            var figures = Figures()
            let table = versions.table
            (figures.known, figures.weight) = (table.entries.count * table.weight, table.weight)
            (figures.byteCount, figures.keepsNames) = (table.byteCount, table.keepsNames)
            for (scope, list) in versions.rollouts.lists {
                let newest = list.last?.number ?? 0
                var counts = [Int](repeating: 0, count: 6)
                for place in versions.places(of: scope) where table.entries[place].isPresent {
                    let held = table.entries[place].fetched
                    counts[held == 0 ? 5 : min(4, Int(newest - min(held, newest)))] += table.weight
                }
                figures.present += counts.reduce(0, +)
                figures.behind[scope] = counts
            }
            return figures
        }
    }
}

extension RolloutState {
    fileprivate func rollout(_ scope: Scope, _ version: VersionNumber?) -> VersionRollout? {
        guard let version else { return rollouts[scope]?.last }
        return rollouts[scope]?.last { $0.version == version }
    }

    fileprivate func places(of scope: Scope) -> [Int] {
        guard let number = names.number(known: scope) else { return [] }
        return table.entries.indices.filter { table.entries[$0].scope == number }
    }

    fileprivate func laggards(_ scope: Scope, _ rollout: VersionRollout, _ stage: RolloutStatus.Stage) -> [Int] {
        places(of: scope).filter { place in
            let entry = table.entries[place]
            guard entry.cohort & rollout.bit != 0 else { return false }
            return (stage == .active ? entry.active : entry.fetched) < rollout.number
        }
    }

    fileprivate func client(_ place: Int, _ rollout: VersionRollout?, at now: UInt64) -> KnownClient {
        let entry = table.entries[place]
        let label = names.labels[entry.label]
        let failure = failures[table.keys[place]]
        let wanted = rollout?.number ?? 0
        // A client in the version's audience holds an older version, even if it never named one.
        let isAwaited = rollout.map { !$0.isPartial && entry.cohort & $0.bit != 0 } ?? false
        let state: KnownClient.State =
            entry.fetched < wanted && entry.isLost(rollout?.bit ?? 0)
            ? .lost
            : failure != nil && entry.active < wanted
                ? .failed : entry.fetched >= wanted ? .current : entry.fetched > 0 || isAwaited ? .behind : .unknown
        // Other nodes do not say where clients go that have the newest version.
        let isLive = entry.isLive || entry.isElsewhere && isAwaited && entry.fetched < wanted
        let missing = (rollouts[names.scope(entry.scope)] ?? []).first {
            entry.cohort & $0.bit != 0 && entry.fetched < $0.number
        }
        return KnownClient(
            id: table.id(place), address: table.keepsNames ? table.addresses[place] : nil, app: label.app,
            sdk: label.sdk, held: VersionNumber(clamping: entry.fetched),
            active: VersionNumber(clamping: entry.active),
            behindSince: missing?.announceTime,
            secondsUnseen: isLive ? 0 : Double(tenths(now) - min(entry.seen, tenths(now))) / 10,
            isLive: isLive, state: state, error: failure?.error ?? "")
    }

    fileprivate func groups(
        _ places: [Int], by trait: ClientGroups.Trait, address: (UInt64) -> String
    ) -> ClientGroups {
        var counts: [UInt64: Int] = [:]
        for place in places {
            let entry = table.entries[place]
            switch trait {
            case .held: counts[UInt64(entry.fetched), default: 0] += table.weight
            case .address: counts[table.keepsNames ? table.addresses[place] : 0, default: 0] += table.weight
            case .app, .sdk: counts[UInt64(entry.label), default: 0] += table.weight
            }
        }
        var named: [String: Int] = [:]
        for (key, count) in counts {
            let name =
                switch trait {
                case .held: String(key)
                case .address: table.keepsNames ? address(key) : ""
                case .app: names.labels[UInt16(key)].app
                case .sdk: names.labels[UInt16(key)].sdk
                }
            named[name, default: 0] += count
        }
        var groups = ClientGroups()
        groups.counts = named.map { ($0.key, $0.value) }.sorted { ($1.1, $0.0) < ($0.1, $1.0) }
        return groups
    }
}
