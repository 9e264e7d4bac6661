import StalecastWire

/// Numbers of what many clients have in common: their scope, the set of their topics, their label, their node.
struct SharedNames {
    /// Kind of a client, and its library.
    struct Label: Hashable {
        var app = ""
        var sdk = ""
    }

    private var scopes: [Scope] = []
    private var scopeNumbers: [Scope: UInt16] = [:]
    private var topicSets = NumberedValues<Set<Topic.Index>>([])
    private(set) var labels = NumberedValues(Label())
    private var nodeNumbers: [String: UInt16] = [:]
    /// Time when sets and labels that no client has any more made room last.
    private var lastReclaim: UInt32?

    mutating func number(of scope: Scope) -> UInt16 {
        if let number = scopeNumbers[scope] { return number }
        let number = UInt16(clamping: scopes.count)
        scopes.append(scope)
        scopeNumbers[scope] = number
        return number
    }

    /// Returns the number of another node, from 1.
    mutating func number(ofNode node: String) -> UInt16 {
        if let number = nodeNumbers[node] { return number }
        let taken = Set(nodeNumbers.values)
        let number = (1..<UInt16.max).first { !taken.contains($0) } ?? .max
        nodeNumbers[node] = number
        return number
    }

    /// Lets go of all nodes but these. What a node said before it ended may have given it a number again.
    ///
    /// - Returns: the numbers of the others.
    mutating func forget(allBut nodes: Set<String>) -> Set<UInt16> {
        Set(nodeNumbers.keys.filter { !nodes.contains($0) }.compactMap { nodeNumbers.removeValue(forKey: $0) })
    }

    func number(known scope: Scope) -> UInt16? { scopeNumbers[scope] }
    func scope(_ number: UInt16) -> Scope { scopes[Int(number)] }
    func topics(_ number: UInt16) -> Set<Topic.Index> { topicSets[number] }

    /// Whether each set, by its number, has one of `topics`.
    func hears(_ topics: Set<Topic.Index>) -> [Bool] { topicSets.values.map { !$0.isDisjoint(with: topics) } }

    /// A client with a set for which there is no room counts as one that hears nothing.
    mutating func number(of topics: Set<Topic.Index>, in table: inout ClientTable, at time: UInt32) -> UInt16 {
        if let number = topicSets.number(of: topics) { return number }
        reclaim(in: &table, at: time)
        return topicSets.number(of: topics) ?? 0
    }

    /// A client whose new label finds no room keeps the one it had.
    ///
    /// - Parameter place: the client's; nil for a new one.
    mutating func label(
        of client: ClientIdentity, over place: Int?, in table: inout ClientTable, at time: UInt32
    ) -> UInt16 {
        // Read again after `reclaim`, which numbers labels anew.
        func known() -> UInt16 { place.map { table.entries[$0].label } ?? 0 }
        if let number = number(of: client, over: known()) { return number }
        reclaim(in: &table, at: time)
        return number(of: client, over: known()) ?? known()
    }

    /// - Parameter known: what the client said before; a word that it leaves out now stays.
    /// - Returns: nil where there is no room for a new label.
    private mutating func number(of client: ClientIdentity, over known: UInt16) -> UInt16? {
        var label = labels[known]
        if !client.app.isEmpty { label.app = client.app }
        if !client.sdk.isEmpty { label.sdk = client.sdk }
        // Most clients say at each fetch what they said before.
        return label == labels[known] ? known : labels.number(of: label)
    }

    /// Lets go of the sets and labels that no client has any more. Strangers make both, and what they leave behind must
    /// not take the room of those who come after them. It passes over all clients, so at most once a minute.
    private mutating func reclaim(in table: inout ClientTable, at time: UInt32) {
        if let lastReclaim, time < lastReclaim + 600 { return }
        lastReclaim = time
        let present = table.entries.lazy.filter(\.isPresent)
        let topics = topicSets.keep(Set(present.map(\.topics)))
        let labels = labels.keep(Set(table.entries.lazy.map(\.label)))
        for place in table.entries.indices {
            let entry = table.entries[place]
            table.entries[place].topics = entry.isPresent ? topics[Int(entry.topics)] : 0
            table.entries[place].label = labels[Int(entry.label)]
        }
    }
}
