@preconcurrency import Foundation
public import StalecastClient

/// Run of a sample: where its server is, and when it ends. Nothing here is needed in an app.
public struct SampleRun: Sendable {
    /// Options for the server at `STALECAST_ENDPOINT` (default `http://127.0.0.1:8080`, where `deploy/run.sh` serves).
    public let options: StalecastOptions
    /// The sample ends after so many changes were seen; nil runs until Ctrl-C.
    public let changes: Int?

    /// Reads the environment and the arguments, and ends the process when they are wrong or ask for help.
    ///
    /// - Parameter purpose: one sentence for `--help`.
    public init(_ purpose: String) {
        // Lines appear at once, also in a pipe.
        setvbuf(stdout, nil, Int32(_IOLBF), 0)
        var arguments = CommandLine.arguments.dropFirst()
        var changes: Int?
        while let argument = arguments.popFirst() {
            switch argument {
            case "--help": Self.end(purpose + "\n\n" + Self.usage, code: 0)
            case "--changes":
                guard let count = arguments.popFirst().flatMap({ Int($0) }), count > 0 else {
                    Self.end("--changes needs a number above 0\n\n" + Self.usage, code: 64)
                }
                changes = count
            default: Self.end("there is no argument \(argument)\n\n" + Self.usage, code: 64)
            }
        }
        self.changes = changes
        let environment = ProcessInfo.processInfo.environment
        guard let endpoint = URL(string: environment["STALECAST_ENDPOINT"] ?? "http://127.0.0.1:8080") else {
            Self.end("STALECAST_ENDPOINT is no URL", code: 64)
        }
        var options = StalecastOptions(endpoint: endpoint, project: environment["STALECAST_PROJECT"] ?? "demo")
        options.cacheDirectory = environment["STALECAST_CACHE"].map { URL(fileURLWithPath: $0, isDirectory: true) }
        options.onProblem = { print("note: \($0)") }
        self.options = options
    }

    private static let usage = """
        --changes N   end after N changes; default: run until Ctrl-C

        Environment: STALECAST_ENDPOINT (default http://127.0.0.1:8080), STALECAST_PROJECT (default demo),
        STALECAST_CACHE (directory of the cache; default the user's)
        """

    private static func end(_ text: String, code: Int32) -> Never {
        print(text)
        exit(code)
    }

    /// Calls `body` with each update, for ever. An error, such as a broken connection, ends an iteration and not the
    /// listening: the sequence is iterated anew.
    public func forEachUpdate(
        of remoteConfig: RemoteConfig, isolation: isolated (any Actor)? = #isolation,
        _ body: (RemoteConfigUpdate) async throws -> Void
    ) async {
        while !Task.isCancelled {
            do {
                for try await update in remoteConfig.configUpdates { try await body(update) }
            } catch {
                print("note: \(error.localizedDescription)")
            }
        }
    }

    /// Ends the process when enough was seen.
    public func sawChange(_ number: Int) {
        if let changes, number >= changes { exit(0) }
    }
}
