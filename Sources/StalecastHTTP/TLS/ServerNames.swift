/// Chooses a client's certificate among several by the name it asks for (SNI).
package struct ServerNames: Sendable {
    private var exact: [String: Int] = [:]
    /// Indices by the text after `*`, its dot included.
    private var wildcards: [String: Int] = [:]

    /// - Parameter names: of each certificate in turn; where two have a name the first keeps it.
    package init(_ names: [[String]]) {
        for (index, names) in names.enumerated() {
            for name in names {
                if name.hasPrefix("*.") {
                    if wildcards[String(name.dropFirst())] == nil { wildcards[String(name.dropFirst())] = index }
                } else if exact[name] == nil {
                    exact[name] = index
                }
            }
        }
    }

    /// The certificate for a name: its own, else one whose wildcard stands for the first label, else the first.
    package func index(for name: String?) -> Int {
        guard var name = name?.lowercased() else { return 0 }
        if name.hasSuffix(".") { name.removeLast() }
        if let index = exact[name] { return index }
        guard let dot = name.firstIndex(of: "."), dot != name.startIndex else { return 0 }
        return wildcards[String(name[dot...])] ?? 0
    }
}
