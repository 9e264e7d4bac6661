package import StalecastWire

/// A template that waits to become its scope's next version. It becomes that only over the version it was made over,
/// and its content never changes.
package struct Proposal: Sendable, Hashable {
    /// Raw values are on the wire and in the database.
    package enum State: String, Sendable, CaseIterable {
        case open = "OPEN"
        case approved = "APPROVED"
        case rejected = "REJECTED"
        /// The proposal was open for ``Proposal/life``.
        case expired = "EXPIRED"
    }

    /// Person that proposed, decided, or sent a message.
    package struct Person: Sendable, Hashable {
        /// Principal as in the audit log: `bootstrap`, `key:<id>`, `token:<issuer>:<subject>`. Two proposals
        /// with the same principal count as one person's.
        package let principal: String
        package let user: UpdateUser

        package init(principal: String, user: UpdateUser) {
            self.principal = principal
            self.user = user
        }

        /// Author of the version that an approval publishes, with the approver in its name: `Ada, approved by Bob`. An
        /// approver without a user is the schedule.
        func user(approvedBy approver: Person) -> UpdateUser {
            if approver.principal == principal || approver.user == UpdateUser() { return user }
            var both = user
            both.name = "\(word), approved by \(approver.word)"
            return both
        }

        private var word: String { user.name.isEmpty ? user.email.isEmpty ? principal : user.email : user.name }
    }

    package struct Decision: Sendable, Hashable {
        package let by: Person
        package let time: Timestamp
        /// Reason of a rejection; may be empty.
        package var reason = ""
        /// Version that an approval published.
        package var version: VersionNumber?
    }

    package struct ID: Sendable, Hashable {
        let scope: Scope
        let number: Int64
    }

    package let scope: Scope
    /// Counted in its scope, from 1.
    package let number: Int64
    package var id: ID { ID(scope: scope, number: number) }
    package internal(set) var state: State
    /// Version over which the proposal was made; 0 is an empty scope.
    package let base: VersionNumber
    package let baseETag: String
    package let createTime: Timestamp
    package let author: Person
    package let description: String
    package let isUrgent: Bool
    package let origin: UpdateOrigin
    /// Names of the parameters that it changes in `base`, sorted; in a cluster the first, up to 32 KiB.
    package private(set) var changedKeys: [String]
    /// Time at which it is published without approval; nil: it needs an approval.
    package internal(set) var publishTime: Timestamp?
    /// nil while it is open, and when it expired.
    package internal(set) var decision: Decision?
    /// Time since which an approval is under way at a node of a cluster; nil: none is.
    package internal(set) var approvingSince: Timestamp?

    /// End of the time in which it can be approved.
    package static let life: Duration = .seconds(30 * 86_400)
    /// Open ones of a scope.
    package static let mostOpen = 100
    /// Others of a scope that are kept, without their content.
    package static let mostSettled = 300

    /// Proposal with as many of its changed keys as `bytes` have room for, the first ones.
    package func keepingKeys(within bytes: Int) -> Proposal {
        var (kept, room) = (self, bytes)
        kept.changedKeys = Array(
            changedKeys.prefix { key in
                // A control character takes 6.
                room -= key.utf8.reduce(3) { $0 + ($1 < 0x20 ? 6 : $1 == 0x22 || $1 == 0x5C ? 2 : 1) }
                return room >= 0
            })
        return kept
    }

    package var expireTime: Timestamp { createTime.advanced(by: Self.life) }

    /// JSON without the template. The same in the database, but for `number`, `state`, `createTime`.
    package var json: JSONObject {
        var object: JSONObject = [
            "number": .string(String(number)), "state": .string(state.rawValue),
            "baseVersion": .string(String(base)), "baseEtag": .string(baseETag),
            "createTime": .string(createTime.description), "expireTime": .string(expireTime.description),
            "author": .object(author.json), "description": .string(description), "urgent": .bool(isUrgent),
            "origin": .string(origin.rawValue), "changedKeys": .array(changedKeys.map(JSONValue.string)),
        ]
        object["publishTime"] = publishTime.map { .string($0.description) }
        object["approvingSince"] = approvingSince.map { .string($0.description) }
        guard let decision else { return object }
        var decided = decision.by.json
        decided["time"] = .string(decision.time.description)
        if !decision.reason.isEmpty { decided["reason"] = .string(decision.reason) }
        decided["versionNumber"] = decision.version.map { .string(String($0)) }
        object["decision"] = .object(decided)
        return object
    }
}

extension Proposal {
    /// Reads what ``json`` wrote, as nodes share it; nil for anything else.
    package init?(shared record: JSONValue, of scope: Scope) {
        guard let number = record["number"]?.int64, number > 0,
            let state = record["state"]?.string.flatMap(State.init),
            let time = record["createTime"]?.string.flatMap(Timestamp.init)
        else { return nil }
        self.init(record, scope: scope, number: number, state: state, createTime: time)
    }

    /// Reads what ``json`` wrote.
    init(_ record: JSONValue, scope: Scope, number: Int64, state: State, createTime: Timestamp) {
        (self.scope, self.number, self.state, self.createTime) = (scope, number, state, createTime)
        base = VersionNumber(clamping: record["baseVersion"]?.int64 ?? 0)
        baseETag = record["baseEtag"]?.string ?? ""
        author = Person(record["author"])
        description = record["description"]?.string ?? ""
        isUrgent = record["urgent"]?.bool ?? false
        origin = UpdateOrigin(rawValue: record["origin"]?.string ?? "") ?? .unspecified
        approvingSince = record["approvingSince"]?.string.flatMap(Timestamp.init)
        publishTime = record["publishTime"]?.string.flatMap(Timestamp.init)
        changedKeys = (record["changedKeys"]?.array ?? []).compactMap(\.string)
        decision = record["decision"].map { decision in
            Decision(
                by: Person(decision), time: Timestamp(decision["time"]?.string ?? "") ?? createTime,
                reason: decision["reason"]?.string ?? "",
                version: decision["versionNumber"]?.int64.map { VersionNumber(clamping: $0) })
        }
    }
}

extension Proposal.Person {
    init(_ json: JSONValue?) {
        self.init(principal: json?["principal"]?.string ?? "", user: UpdateUser(json: json))
    }

    var json: JSONObject {
        var object: JSONObject = ["principal": .string(principal)]
        for (name, value) in user.json?.object?.members ?? [] { object[name] = value }
        return object
    }
}
