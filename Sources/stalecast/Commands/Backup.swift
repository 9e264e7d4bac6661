import ArgumentParser
import StalecastStore

/// `stalecast backup`: a safe copy of the store, while the daemon runs or not.
struct Backup: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Copy the store into one file, also while the daemon runs.",
        discussion: """
            The copy is consistent: it holds every version acknowledged before it began. The control token is not in it.

            Examples:
              stalecast backup stalecast-$(date +%F).backup
              stalecast backup /backup/stalecast.backup --data /var/lib/stalecast
            """)

    @Argument(help: "The file to write; it must not exist yet.")
    var file: String

    @OptionGroup var data: DataOptions

    func run() async throws {
        let directory = data.directory.path
        do {
            try TemplateStore.backup(directory: directory, to: file)
        } catch {
            throw CommandFailure(.refused, "no backup made: \(error)")
        }
        try Output(isJSON: false, palette: Palette(isOn: false)).line("\(directory) is copied to \(file)")
    }
}

/// `stalecast restore`: puts a backup in the place of a data directory's store.
struct Restore: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Put a backup in place of the store; the daemon must be stopped.",
        discussion: """
            The store gets a new identity: clients that come back with a cursor of the former one are told so \
            (`reset`) and hear the current state anew. The replaced store stays beside it, with before-restore in its \
            name.

            Examples:
              stalecast restore stalecast-2026-11-20.backup
              stalecast restore /backup/stalecast.backup --data /var/lib/stalecast
            """)

    @Argument(help: "A file made by `stalecast backup`.")
    var file: String

    @OptionGroup var data: DataOptions

    func run() async throws {
        let directory = data.directory.path
        do {
            try TemplateStore.restore(from: file, to: directory)
        } catch {
            throw CommandFailure(.refused, "nothing restored: \(error)")
        }
        try Output(isJSON: false, palette: Palette(isOn: false))
            .line("\(file) is now the store in \(directory); start it with `stalecast serve --data \(directory)`")
    }
}
