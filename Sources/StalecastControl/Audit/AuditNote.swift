import StalecastAccess
import StalecastHTTP
import StalecastStore
import StalecastWire
import Synchronization

/// Note for the audit log that an operation's handler fills.
final class AuditNote: Sendable {
    private let members = Mutex(JSONObject())
    private let isTrial = Mutex(false)
    private let action = Mutex<String?>(nil)

    func set(_ name: String, _ value: JSONValue) { members.withLock { $0[name] = value } }

    /// Names what was done, where the operation's name says something else.
    func act(_ name: String) { action.withLock { $0 = name } }

    /// Nothing was to be changed.
    func onlyChecked() { isTrial.withLock { $0 = true } }

    /// Names in one line; the rest are counted.
    private static let namesShown = 64

    func published(_ version: StoredVersion) {
        set("version", .string(String(version.version)))
        set("previousVersion", .string(String(version.version - 1)))
        if let source = version.metadata.rollbackSource { set("rollbackSource", .string(String(source))) }
        if let keys = version.change.changedKeys { named(keys) }
    }

    /// Names of parameters that are changed.
    func named(_ keys: [String]) {
        set("changedKeys", .texts(keys.prefix(Self.namesShown)))
        if keys.count > Self.namesShown { set("changedKeyCount", .int(keys.count)) }
    }

    /// nil is what the operation is called.
    var done: String? { action.withLock(\.self) }

    /// nil when nothing was to be changed.
    var told: JSONObject? { isTrial.withLock(\.self) ? nil : members.withLock { $0 } }
}

extension Control {
    /// Whether an operation may be run: one that changes something needs room for its line.
    func canRecord(_ operation: ControlOperation) -> Bool {
        guard let audit, operation.changesSomething else { return true }
        return audit.hasRoom()
    }

    /// Members that the line of an operation has before it is run; nil when it changes nothing.
    func auditEntry(of operation: ControlOperation, _ names: PathValues, _ call: Call) -> AuditEntry? {
        guard let copies, operation.changesSomething else { return nil }
        var entry = JSONObject(capacity: 8)
        entry["actor"] = .string(call.principal?.actor ?? "stranger")
        let user = call.updateUser
        if user != UpdateUser() { entry["user"] = .string(user.name.isEmpty ? user.email : user.name) }
        entry["ip"] = call.peer.map(JSONValue.string)
        for name in ["project", "namespace", "webhook", "key", "proposal"] where !names[name].isEmpty {
            entry[name] = .string(String(names[name].prefix(80)))
        }
        entry["requestId"] = .string(call.requestID)
        return copies.entry(Self.action(operation.document.id), entry)
    }

    /// Writes the line of an operation that changes something; before it is answered.
    func record(_ known: AuditEntry, _ operation: ControlOperation, _ call: Call, _ answer: inout Answer) {
        guard let copies, let told = call.note.told else { return }
        var entry = JSONObject(capacity: told.count + known.members.count + 4)
        for (name, value) in told.members { entry[name] = value }
        for (name, value) in known.members.members where name != "action" { entry[name] = entry[name] ?? value }
        if let id = known.members["requestId"]?.string { answer.add("X-Request-Id", id) }
        // 504 is what a cluster's log did not decide in time.
        let isUnknown = answer.status == 500 || answer.status == 504
        entry["outcome"] = .string(answer.status == 200 ? "ok" : isUnknown ? "unknown" : "refused")
        entry["status"] = .int(answer.status)
        copies.write(Self.action(call.note.done ?? operation.document.id), entry, of: known)
    }

    private static func action(_ id: String) -> String { id.hasSuffix("InNamespace") ? String(id.dropLast(11)) : id }
}

extension ControlOperation {
    /// An event that makes a source poll changes nothing yet.
    fileprivate var changesSomething: Bool {
        guard let action = document.action, document.method != "GET" else { return false }
        return action != .read && document.id != "trigger"
    }
}

extension Call {
    /// The caller's `X-Request-Id`, when it is a plain word of up to 64 characters, or one of our own.
    var requestID: String {
        if let given = self[field: "x-request-id"], given.isWord(1...64, and: "-_.") { return given }
        return String(lastRequestID.wrappingAdd(0x9E37_79B9_7F4A_7C15, ordering: .relaxed).newValue, radix: 16)
    }
}

/// Identifier of the last request that brought none. An odd step visits every number before one comes again; a random
/// number for each costs a call of the kernel.
private let lastRequestID = Atomic(UInt64.random(in: .min ... .max))
