import StalecastWire
import Yams

extension ConfigurationOption {
    /// The row of `projects`, whose entries are mappings.
    static let projects = ConfigurationOption(
        entries: "projects", \.projects,
        [
            EntryField("id", "1 to 63 characters of A-Z a-z 0-9 - _ . :", "The project's id."),
            EntryField(
                "number", "whole number, 1 to \(Int64.max)",
                "The project's number, which resolves as the id does and is part of every ETag."),
            EntryField(
                "namespaces", "list of names; may be left out: [firebase, firebase-server]",
                "The project's namespaces; firebase has the client template, firebase-server the server's."),
            EntryField(
                "serverTemplateOnEdge", "true or false; may be left out: false",
                "True lets every client that reaches Edge fetch and stream the server template, as web apps with "
                    + "server-side rendering do; nothing in the template is secret then."),
            EntryField(
                "approvals", "optional or required; may be left out: optional",
                "With required nobody publishes alone: one principal proposes, another approves. A rollback "
                    + "needs no approval, and is logged as a bypass."),
        ],
        .restart, "The projects served, at least one; ids and numbers are unique.",
        spell: { project in
            let namespaces = project.namespaces.map(\.description).joined(separator: ", ")
            let onEdge = project.serverTemplateOnEdge ? ", serverTemplateOnEdge: true" : ""
            let approvals = project.approvals == .optional ? "" : ", approvals: \(project.approvals.rawValue)"
            return "{id: \(project.id), number: \(project.number), namespaces: [\(namespaces)]\(onEdge)\(approvals)}"
        },
        read: { $1.readProjects($0) })
}

extension ConfigurationReading {
    /// Reads the list under `projects`; every problem is noted, entries with problems are left out.
    mutating func readProjects(_ node: Node) {
        var taken: [String: String] = [:]
        configuration.projects = entries(of: node, at: "projects").compactMap { project($1, at: $0, &taken) }
        if entriesAreEmpty(node) { note("projects needs at least one project", at: "projects") }
    }

    private mutating func project(
        _ entry: Node, at path: String, _ taken: inout [String: String]
    ) -> Configuration.Project? {
        let optional = ["namespaces", "serverTemplateOnEdge", "approvals"]
        guard let entry = self.entry(entry, at: path, required: ["id", "number"], optional: optional) else {
            return nil
        }
        let id = value("id", of: entry, parse: ProjectID.init)
        let number = value("number", of: entry, parse: projectNumber)
        if let id { claim(id.description, as: "\(path).id", in: &taken) }
        // A project whose id is its own number is unusual but unambiguous.
        if let number, id?.description != String(number) {
            claim(String(number), as: "\(path).number", in: &taken)
        }
        let namespaces = values("namespaces", of: entry, or: [.firebase, .firebaseServer], parse: Namespace.init)
        let onEdge = value("serverTemplateOnEdge", of: entry, or: false, parse: OptionKind<Bool>.flag.parse)
        let approvals = value(
            "approvals", of: entry, or: .optional, parse: OptionKind<Configuration.Project.Approvals>.choice.parse)
        guard let id, let number, let namespaces, let onEdge, let approvals else { return nil }
        var project = Configuration.Project(id: id, number: number, namespaces: namespaces)
        project.serverTemplateOnEdge = onEdge
        project.approvals = approvals
        return project
    }

    /// Ids and numbers share one space, because both resolve in URLs.
    private mutating func claim(_ name: String, as path: String, in taken: inout [String: String]) {
        if let first = taken[name] {
            note("\(path): \(name) is already \(first); ids and numbers of projects are unique", at: path)
        } else {
            taken[name] = path
        }
    }
}

private func projectNumber(_ text: String) throws(InvalidValue) -> Int64 {
    guard let (number, rest) = numberAndUnit(text), rest.isEmpty, number > 0 else {
        throw InvalidValue("\"\(text)\" must be a whole number, 1 to \(Int64.max)")
    }
    return number
}
