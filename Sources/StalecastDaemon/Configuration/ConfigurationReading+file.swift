import StalecastTemplate
import StalecastWire
import Yams

extension ConfigurationReading {
    /// Reads the mapping at key path `section`. No value at all is a section whose keys are all left out.
    mutating func readSection(_ section: String, _ node: Node) {
        if node.isNothing { return }
        guard let mapping = node.mapping else {
            let place = section.isEmpty ? "the file" : section
            note("\(place) must be a mapping of keys, not \(node.shape)", from: origin(of: node))
            return
        }
        for (key, value) in mapping { readKey(key, value, in: section) }
    }

    private mutating func readKey(_ key: Node, _ value: Node, in section: String) {
        guard let name = keyName(key) else { return }
        let path = section.isEmpty ? name : "\(section).\(name)"
        if let option = ConfigurationOption.all.first(where: { $0.section == section && $0.name == name }) {
            place(path, at: origin(of: key))
            readOption(option, value)
        } else if ConfigurationSection.all.contains(where: { $0.parent == section && $0.name == name }) {
            readSection(path, value)
        } else if let sentence = ConfigurationOption.goneSentence(path) {
            if value.scalar?.string != "false" { note(sentence, from: origin(of: key)) }
        } else {
            noteUnknown(name, path, in: section, from: origin(of: key))
        }
    }

    /// The text of a key; nil for keys already reported as set twice, and, with a note, for keys that are not text.
    mutating func keyName(_ key: Node) -> String? {
        guard let name = key.scalar?.string else {
            note("a key must be a word, not \(key.shape)", from: origin(of: key))
            return nil
        }
        return skippedKeys.contains(name) ? nil : name
    }

    private mutating func readOption(_ option: ConfigurationOption, _ node: Node) {
        switch option.reader {
        case .scalar(let read):
            guard let text = text(of: node, at: option.path, expected: option.form) else { return }
            set(option) { try read(text, &$0) }
        case .list(let read):
            // Each element alone first, so that each problem gets the line of its element.
            let texts = uniqueValues(node, at: option.path, mayBeEmpty: true) { text in
                var scratch = Configuration()
                try read([text], &scratch)
                return text
            }
            guard let texts else { return }
            set(option) { try read(texts, &$0) }
        case .entries(_, let read): read(node, &self)
        }
    }

    private mutating func noteUnknown(
        _ name: String, _ path: String, in section: String, from origin: ConfigurationProblem.Origin
    ) {
        if let option = ConfigurationOption.all.first(where: { $0.path == name }) {
            return note("\(name) must be written as \(option.name) inside \(option.section)", from: origin)
        }
        let elsewhere =
            (ConfigurationOption.all.first { $0.name == name }?.path)
            ?? (ConfigurationSection.all.first { $0.name == name }?.path)
            ?? otherwiseSpelled(name, in: section)
        let known =
            ConfigurationOption.all.filter { $0.section == section }.map(\.path)
            + ConfigurationSection.all.filter { $0.parent == section }.map(\.path)
        let nearest = elsewhere ?? nearestName(to: path, of: known, prefix: section)
        note("unknown key \(path)\(hint(at: nearest))", from: origin)
    }

    /// Key path that `name` means by other words: `logLevel` is log.level, `edge.port` edge.listen, `cert` certificate.
    private func otherwiseSpelled(_ name: String, in section: String) -> String? {
        let options = ConfigurationOption.all.filter { $0.section == section }
        if ["port", "address", "bind", "host"].contains(name) { return options.first { $0.name == "listen" }?.path }
        if name.count >= 4, let longer = options.first(where: { $0.name.hasPrefix(name) }) { return longer.path }
        guard section.isEmpty else { return nil }
        return ConfigurationOption.all.first { $0.path.replacing(".", with: "").lowercased() == name.lowercased() }?
            .path
    }

    func origin(of node: Node) -> ConfigurationProblem.Origin { .file(file, line: node.mark?.line) }
}

/// The end of a sentence about an unknown key or variable: `; the nearest known key is edge.heartbeat`. Names that
/// are too different are not proposed.
func hint(at nearest: String?, _ noun: String = "key") -> String {
    nearest.map { "; the nearest known \(noun) is \($0)" }
        ?? "; `stalecast check-config --explain` prints every \(noun) there is"
}
