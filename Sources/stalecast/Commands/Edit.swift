import ArgumentParser
import Foundation
import StalecastTemplate
import StalecastWire

struct Edit: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "edit",
        abstract: "Edit the current version in $EDITOR and publish it.",
        discussion: """
            What you save is checked as `publish` checks it, before anything is sent; what is refused stays in a file that \
            is named. If another version came first, nothing is published (exit code 5). The editor is $VISUAL, else \
            $EDITOR, with its options.

            Examples:
              stalecast edit
              EDITOR='code --wait' stalecast edit --description 'spring'
            """)

    @Flag(help: "Publish also where parameters of the current version are missing.")
    var allowRemovals = false

    @OptionGroup var proposing: VersionOptions
    @OptionGroup var options: PublishingOptions

    func run() async throws {
        let editor = try Self.editor(ProcessInfo.processInfo.environment)
        let api = try options.api()
        let before = try await api.get()
        let text = JSONValue.object(TemplateEdit(before.json).document).encoded(.pretty) + [0x0A]
        let path = try Self.draft(text, of: api.scope)
        do throws(CommandFailure) {
            let (file, template) = try edited(path, with: editor, api.scope.namespace)
            let publishing = Publishing(
                api: api, before: before, content: template, options: options, allowsRemovals: allowRemovals)
            let request = file.request(description: proposing.description)
            if proposing.isAsked {
                try await publishing.propose(request, ifMatch: before.etag, at: proposing.at?.time)
            } else {
                try await publishing.run { () async throws(CommandFailure) in
                    _ = try await api.put(request, ifMatch: before.etag, validateOnly: true)
                    return try await api.put(request, ifMatch: before.etag, validateOnly: false)
                }
            }
            unlink(path)
        } catch {
            throw kept(path, text, error, before.etag)
        }
    }

    /// Text that was saved, valid; after a mistake the editor is opened again if the user wants it.
    private func edited(
        _ path: String, with editor: String, _ namespace: Namespace
    ) throws(CommandFailure) -> (TemplateFile, Template) {
        while true {
            try Self.open(path, with: editor)
            do throws(CommandFailure) {
                let file = try TemplateFile(path)
                return (file, try file.template(for: namespace))
            } catch {
                guard Question.canBeAsked else { throw error }
                ErrorReport(error).write()
                guard Question("Edit it again?").isAffirmed else { throw error }
            }
        }
    }

    /// The failure, and where the text is; a text as it was is no loss.
    private func kept(_ path: String, _ text: [UInt8], _ failure: CommandFailure, _ etag: String) -> CommandFailure {
        // A file that cannot be read any more is kept too.
        if let now = try? InputFile.contents(of: path), Array(now) == text {
            unlink(path)
            return failure
        }
        return CommandFailure(
            failure.status, failure.sentence, problems: failure.problems,
            advice: (failure.advice.map { $0 + "\n" } ?? "")
                + "Your text is in \(path); when it is right: stalecast publish \(path)"
                + (failure.status == .versionMismatch ? "" : " --if-match \(etag)"))
    }

    // MARK: The editor

    private static func editor(_ environment: [String: String]) throws(CommandFailure) -> String {
        let named = ["VISUAL", "EDITOR"].lazy.compactMap { environment[$0] }.first { !$0.isEmpty }
        guard let named else {
            throw CommandFailure(
                .usage, "no editor is named", advice: "Set one: EDITOR=nano stalecast edit. `stalecast set` needs none."
            )
        }
        return named
    }

    private static func draft(_ text: [UInt8], of scope: Scope) throws(CommandFailure) -> String {
        var template = Array("\(FileManager.default.temporaryDirectory.path)/stalecast-XXXXXX.json".utf8CString)
        let descriptor = mkstemps(&template, 5)
        let path = String(decoding: template.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        guard descriptor >= 0 else {
            throw CommandFailure(.refused, "\(path) cannot be made (\(String(cString: strerror(errno))))")
        }
        close(descriptor)
        try OutputFile.write(text, to: path)
        return path
    }

    /// Runs the editor on this terminal and waits. A shell takes its options apart. Ctrl-C is the editor's.
    private static func open(_ path: String, with editor: String) throws(CommandFailure) {
        let (interrupt, quit) = (signal(SIGINT, SIG_IGN), signal(SIGQUIT, SIG_IGN))
        defer {
            signal(SIGINT, interrupt)
            signal(SIGQUIT, quit)
        }
        // The new process would ignore the same signals.
        var defaults = sigset_t()
        sigemptyset(&defaults)
        sigaddset(&defaults, SIGINT)
        sigaddset(&defaults, SIGQUIT)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        posix_spawnattr_setsigdefault(&attributes, &defaults)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGDEF))
        let arguments = ["sh", "-c", "\(editor) \"$1\"", "sh", path]
        var words: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) } + [nil]
        defer { words.forEach { free($0) } }
        var (process, status) = (pid_t(), Int32())
        let failure = posix_spawn(&process, "/bin/sh", nil, &attributes, &words, environ)
        guard failure == 0 else {
            throw CommandFailure(.refused, "no editor can be started: \(String(cString: strerror(failure)))")
        }
        while waitpid(process, &status, 0) < 0, errno == EINTR {}
        guard status == 0 else {
            let code = status & 0x7F == 0 ? "with exit code \(status >> 8 & 0xFF)" : "by signal \(status & 0x7F)"
            throw CommandFailure(.refused, "the editor, \(editor), ended \(code); nothing was published")
        }
    }
}
