import StalecastTemplate

extension ConfigurationReading {
    /// Reads the variables `STALECAST_…`; an empty one counts as not set.
    mutating func read(_ environment: [String: String]) {
        let known = ConfigurationOption.all.compactMap(\.variable)
        for option in ConfigurationOption.all {
            guard let name = option.variable, let text = environment[name], !text.isEmpty else { continue }
            read(option, text, from: .variable(name))
        }
        let gone = ConfigurationOption.successors.keys.map {
            (name: ConfigurationOption.variablePrefix + ConfigurationOption.variableName($0), path: $0)
        }
        for (name, path) in gone.sorted(by: { $0.name < $1.name }) {
            guard let text = environment[name], !text.isEmpty, text != "false" else { continue }
            if let sentence = ConfigurationOption.goneSentence(path) { note(sentence, from: .variable(name)) }
        }
        let isKnown: (String) -> Bool = { name in known.contains(name) || gone.contains { $0.name == name } }
        for name in environment.keys.sorted() where !isKnown(name) && isMeantForConfiguration(name, known) {
            let nearest = nearestName(to: name, of: known, prefix: ConfigurationOption.variablePrefix)
            note("unknown variable\(hint(at: nearest, "one"))", from: .variable(name))
        }
    }

    mutating func read(_ overrides: ConfigurationOverrides) {
        for option in ConfigurationOption.all {
            guard let flag = option.flag, let text = overrides.texts[flag] else { continue }
            read(option, text, from: .flag(flag))
        }
    }

    /// True for names that begin like a section or are close to a known name. Other names with our prefix come from
    /// elsewhere, above all the service links that Kubernetes sets for a service called `stalecast` or
    /// `stalecast-edge`.
    private func isMeantForConfiguration(_ name: String, _ known: [String]) -> Bool {
        guard name.hasPrefix(ConfigurationOption.variablePrefix), !isServiceLink(name) else { return false }
        let inSection = ConfigurationSection.all.contains { section in
            name.hasPrefix("\(ConfigurationOption.variablePrefix)\(ConfigurationOption.variableName(section.path))_")
        }
        return inSection || known.contains { editDistance(Array($0.unicodeScalars), Array(name.unicodeScalars)) <= 2 }
    }

    /// `STALECAST_EDGE_SERVICE_HOST`, `…_SERVICE_PORT_HTTP`, `…_PORT`, `…_PORT_8080_TCP_ADDR`.
    private func isServiceLink(_ name: String) -> Bool {
        name.hasSuffix("_SERVICE_HOST") || name.contains("_SERVICE_PORT") || name.hasSuffix("_PORT")
            || name.contains("_PORT_")
    }
}

extension Substring {
    /// Text without the characters at both ends for which `isTrimmed` holds.
    func trimming(while isTrimmed: (Character) -> Bool) -> String {
        var rest = drop(while: isTrimmed)
        while let last = rest.last, isTrimmed(last) { rest.removeLast() }
        return String(rest)
    }
}
