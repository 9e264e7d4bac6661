import StalecastWire
import Yams

extension ConfigurationOption {
    /// The row of `projects`, whose entries are mappings.
    static let projects = ConfigurationOption(
        entries: "projects", \.projects,
        [
            .required("id", "1 to 63 characters of A-Z a-z 0-9 - _ . :", "The project's id."),
            .required(
                "number", "whole number, 1 to \(Int64.max)",
                "The project's number, which resolves as the id does and is part of every ETag."),
            .optional(
                "namespaces", "list of names", or: "[firebase, firebase-server]",
                "The project's namespaces; firebase has the client template, firebase-server the server's."),
            .optional(
                "serverTemplateOnEdge", "true or false", or: "false",
                "True lets every client that reaches Edge fetch and stream the server template, as web apps with "
                    + "server-side rendering do; nothing in the template is secret then."),
            .optional(
                "approvals", "optional or required", or: "optional",
                "With required no principal publishes alone: one proposes, another approves. A rollback "
                    + "needs no approval, and is logged as a bypass."),
        ],
        .restart, "The projects served, at least one; ids and numbers are unique.",
        spell: { project in
            let namespaces = project.namespaces.map(\.description).joined(separator: ", ")
            let onEdge = project.serverTemplateOnEdge ? ", serverTemplateOnEdge: true" : ""
            let approvals = project.approvals == .optional ? "" : ", approvals: \(project.approvals.rawValue)"
            return "{id: \(project.id), number: \(project.number), namespaces: [\(namespaces)]\(onEdge)\(approvals)}"
        },
        read: { $1.project($0) })
}

extension ConfigurationReading {
    mutating func checkProjects() {
        guard sound("projects"), configuration.projects.isEmpty else { return }
        note("projects needs at least one project", at: "projects")
    }

    fileprivate mutating func project(_ entry: Entry) -> Configuration.Project? {
        let id = value("id", of: entry, parse: ProjectID.init)
        let number = value("number", of: entry, parse: projectNumber)
        // Ids and numbers share one space, because both resolve in URLs.
        let advice = "; ids and numbers of projects are unique"
        if let id { claim(id.description, "id", of: entry, advice) }
        // A project whose id is its own number is unusual but unambiguous.
        if let number, id?.description != String(number) { claim(String(number), "number", of: entry, advice) }
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
}

private func projectNumber(_ text: String) throws(InvalidValue) -> Int64 {
    guard let (number, rest) = numberAndUnit(text), rest.isEmpty, number > 0 else {
        throw InvalidValue("\"\(text)\" must be a whole number, 1 to \(Int64.max)")
    }
    return number
}
