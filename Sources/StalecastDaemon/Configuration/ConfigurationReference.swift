/// The reference text: a configuration file with every option, its meaning and its default, all commented out.
/// `stalecast check-config --explain` prints it, and `samples/stalecast.yaml` is it.
package enum ConfigurationReference {
    /// YAML; lines of at most 120 columns. Prose begins with `# `, a default with `#` and no space.
    package static var text: String {
        let body = blocks(in: "", indentation: "").joined(separator: "\n\n")
        return introduction + "\n\n" + body + "\n"
    }

    private static let introduction = """
        # Configuration of stalecast. Every key may be left out; the commented values are the defaults.
        #
        #   stalecast serve --config FILE          runs with it
        #   stalecast check-config --config FILE   reports all problems, with line numbers
        #
        # Durations are a whole number and its unit: 500ms, 25s, 10m, 2h, 90d. Sizes likewise: 512B, 16KiB, 8MiB, 1GiB.
        # A number without unit is a count. Anchors and aliases are not supported.
        #
        # The environment wins over this file, flags win over the environment. The variable of a key is named beside it; an
        # empty variable counts as not set, a list is separated by commas.
        #
        # "live" means: applied by SIGHUP, dropping no stream. "restart" means: applied by the next start; SIGHUP reports it.
        """

    private static func blocks(in section: String, indentation: String) -> [String] {
        let options = ConfigurationOption.all.filter { $0.section == section }
        let sections = ConfigurationSection.all.filter { $0.parent == section }
        return options.map { block($0, indentation) }
            + sections.map { inner in
                let deeper = indentation + "  "
                let head = "\(indentation)# \(inner.meaning)\n\(indentation)\(inner.name):\n"
                return head + blocks(in: inner.path, indentation: deeper).joined(separator: "\n\n")
            }
    }

    private static func block(_ option: ConfigurationOption, _ indentation: String) -> String {
        var names = [option.needsRestart ? "restart" : "live", option.variable, option.flag].compactMap { $0 }
        names.insert(option.form, at: 0)
        var prose = wrapped(option.meaning, indentation) + wrapped(names.joined(separator: "; "), indentation)
        if case .entries(let fields, _) = option.reader {
            prose += fields.flatMap { wrapped("- \($0.name): \($0.meaning) (\($0.form))", indentation) }
        }
        return (prose + ["\(indentation)#\(option.name): \(option.defaultText)"]).joined(separator: "\n")
    }

    /// `text` as comment lines of at most 120 columns.
    private static func wrapped(_ text: String, _ indentation: String) -> [String] {
        var lines = [""]
        for word in text.split(separator: " ") {
            let line = lines[lines.count - 1]
            if indentation.count + 2 + line.count + word.count > 118 { lines.append("") }
            lines[lines.count - 1] += lines[lines.count - 1].isEmpty ? "\(word)" : " \(word)"
        }
        return lines.map { "\(indentation)# \($0)" }
    }
}
