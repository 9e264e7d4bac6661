package import StalecastWire

/// The configured projects by id and by number. Projects that are only in the database keep their data, unreachable.
package struct ProjectTable: Sendable {
    /// Projects in configured order.
    package let projects: [StoreConfiguration.Project]
    private let numbers: [ProjectID: UInt64]
    private let ids: [String: ProjectID]

    /// - Throws: ``StoreError/misconfigured(_:)`` when an id or a number occurs twice, or a number is another's id.
    package init(_ projects: [StoreConfiguration.Project]) throws(StoreError) {
        var numbers: [ProjectID: UInt64] = [:]
        var ids: [String: ProjectID] = [:]
        for project in projects {
            guard numbers.updateValue(project.number, forKey: project.id) == nil else {
                throw .misconfigured("project \(project.id) is configured twice; remove one of the two")
            }
            for name in Set([project.id.description, String(project.number)]) {
                guard ids.updateValue(project.id, forKey: name) == nil else {
                    throw .misconfigured("\(name) names two projects; ids and numbers must be unique")
                }
            }
        }
        (self.projects, self.numbers, self.ids) = (projects, numbers, ids)
    }

    /// The project with this id, or with this number in decimal; nil when none is configured.
    package func resolve(_ idOrNumber: String) -> ProjectID? { ids[idOrNumber] }

    /// nil when the project is not configured.
    package func number(of project: ProjectID) -> UInt64? { numbers[project] }
}
