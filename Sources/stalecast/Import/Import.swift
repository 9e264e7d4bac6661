import ArgumentParser
import StalecastTemplate
import StalecastWire

struct Import: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Take over templates and their history from another config server.",
        discussion: """
            Examples:
              stalecast import firebase --project shop-prod --dry-run
            """,
        subcommands: [Import.Firebase.self])
}

extension Import {
    struct Firebase: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "firebase",
            abstract: "Copy a Firebase project's template and its versions here.",
            discussion: """
                Every version that Firebase lists is published here, oldest first. The description says which version it \
                was, when, and by whom. Clients that are connected hear of each. A second import publishes only what is \
                new since the first; when another version came here in between, it does nothing without --force.

                Parts of the newest template that Firebase evaluates and this server does not, or evaluates otherwise, are named: \
                audiences, imported segments, personalization, experiments, rollouts, percentages. An older version that \
                is not valid here is left out and named.

                Examples:
                  stalecast import firebase --project shop-prod --dry-run
                  stalecast import firebase --project shop-prod --credentials robot.json
                  stalecast import firebase --project demo --into demo \\
                    --url http://edge:8081 --credentials token

                Exit codes: 1 the newest version is not valid here, or the origin cannot be used; 4 credentials are missing or \
                refused, there or here; 5 another version came here meanwhile; 6 the origin has no version. What was \
                published until then stays, and the next import goes on behind it.
                """)

        @Option(help: .value("id", "The Firebase project, by id or number."))
        var project: String

        @Option(
            help: .value(
                "file",
                "A service account's key file, or a file with an access token (default: $GOOGLE_APPLICATION_CREDENTIALS)."
            ), completion: .file())
        var credentials: String?

        @Option(help: .value("url", "Address of the API, for example another Stalecast's Control (default: Google's)."))
        var url: String?

        @Option(help: .value("name", "Namespace, there and here (default: firebase)."))
        var namespace = "firebase"

        @Option(
            help: .value("id", "The project here (default: $STALECAST_PROJECT, else the context's, else demo)."),
            completion: .projects)
        var into: String?

        @Flag(help: "Read and check everything, publish nothing.")
        var dryRun = false

        @Flag(help: "Publish also over versions that others published here.")
        var force = false

        @OptionGroup var connection: ConnectionOptions

        func run() async throws {
            let namespace = try checked(try Namespace(self.namespace))
            let scope = Scope(project: try ProjectOptions.id(into), namespace: namespace)
            let origin = try ImportOrigin(
                base: url, project: project, namespace: namespace, credentials: credentials)
            let api = TemplateAPI(client: try connection.controlClient(), scope: scope)
            let report = try await copy(from: origin, to: api)
            try report.write(to: connection.output)
        }

        private func copy(from origin: ImportOrigin, to api: TemplateAPI) async throws(CommandFailure) -> ImportReport {
            var current = try await api.get()
            let mark = ImportMark(project: project, namespace: api.scope.namespace)
            let plan = ImportPlan(origin: try await origin.versions(), here: try await api.versions().items, mark: mark)
            guard let newest = plan.newest else {
                throw CommandFailure(.notFound, "\(mark.origin) has no version")
            }
            if !plan.missing.isEmpty, !plan.others.isEmpty, !force { throw others(plan, api.scope) }
            let last = try await origin.template(newest.number)
            // Checked first: without it nothing older is worth publishing.
            let content = try last.template(for: api.scope.namespace)
            var report = ImportReport(
                origin: mark.origin, scope: api.scope, isDryRun: dryRun, found: plan.found, newest: newest.number,
                findings: ImportFinding.all(in: content))
            for version in plan.missing {
                let file = try await version.number == newest.number ? last : origin.template(version.number)
                do throws(CommandFailure) { _ = try file.template(for: api.scope.namespace) } catch {
                    report.skipped.append((version.number, error.problems))
                    continue
                }
                if !dryRun {
                    current = try await api.put(
                        file.request(description: mark.description(of: version)), ifMatch: current.etag,
                        validateOnly: false)
                }
                report.published.append((version.number, dryRun ? nil : current.version))
            }
            return report
        }

        private func others(_ plan: ImportPlan, _ scope: Scope) -> CommandFailure {
            let (first, count) = (plan.others[0], plan.others.count)
            let which = count == 1 ? "version \(first)" : "version \(first) and \(count - 1) more"
            return CommandFailure(
                .refused,
                "\(which) of \(scope) \(count == 1 ? "is" : "are") not from \(project), and an import would replace "
                    + "what is current; nothing was published",
                advice: "`stalecast versions` shows them. --force publishes over them.")
        }
    }
}
