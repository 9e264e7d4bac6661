import Foundation
import StalecastWire

/// The part of the emulator beside its daemon: publishes the template, says how to connect, watches file and parent.
struct EmulatorCompanion: Sendable {
    let data: EmulatorData
    let contents: EmulatorContents
    let scope: Scope
    /// The process to end with; nil for none.
    let parent: pid_t?
    let isJSON: Bool

    /// Time between two looks at the file and the parent.
    private static let interval: Duration = .milliseconds(200)
    /// Time between two looks for the daemon's addresses during its start.
    private static let startInterval: Duration = .milliseconds(5)

    /// Runs until it is cancelled.
    ///
    /// - Returns: why the emulator must end; nil when it was cancelled.
    func run(_ first: JSONValue?) async -> CommandFailure? {
        do throws(CommandFailure) {
            // Before the publish: a change meanwhile is published after it.
            var stamp = contents.stamp
            guard let endpoints = await endpoints() else { return nil }
            let api = TemplateAPI(
                client: ControlClient(
                    address: try ServerAddress(endpoints.control, from: "the emulator"),
                    token: try ControlToken(readFrom: data.directory.tokenFile)), scope: scope)
            let version = try await publish(first, on: api)
            try greet(endpoints, version)
            while await passes(Self.interval) {
                // An orphan has another parent at once. The daemon ends in order at a signal only.
                if let parent, getppid() != parent { kill(getpid(), SIGTERM) }
                guard let seen = contents.stamp, seen != stamp else { continue }
                stamp = seen
                await republish(on: api)
            }
            return nil
        } catch {
            return error
        }
    }

    /// False when the task was cancelled.
    private func passes(_ time: Duration) async -> Bool {
        do { try await Task.sleep(for: time) } catch { return false }
        return true
    }

    /// The addresses really bound; nil when the task was cancelled.
    private func endpoints() async -> DataDirectory.Endpoints? {
        while await passes(Self.startInterval) {
            // The file may not be there yet. A daemon that cannot start ends this task.
            if let endpoints = try? data.directory.endpoints() { return endpoints }
        }
        return nil
    }

    /// - Returns: the version's number; 0 when there is nothing to publish.
    private func publish(_ template: JSONValue?, on api: TemplateAPI) async throws(CommandFailure) -> Int64 {
        guard let template else { return 0 }
        return try await api.put(template, ifMatch: "*", validateOnly: false).version
    }

    /// A mistake in the file is shown and ends nothing: a test or an editor may be in the middle of its work.
    private func republish(on api: TemplateAPI) async {
        do throws(CommandFailure) {
            let version = try await publish(contents.read(), on: api)
            StandardError.write("stalecast: published version \(version) from \((contents.path ?? "").printable)\n")
        } catch {
            ErrorReport(error).write()
        }
    }
}

extension EmulatorData {
    var directory: DataDirectory { DataDirectory(path: path) }
}

extension EmulatorCompanion {
    /// Says how to connect, now that the emulator is ready.
    private func greet(_ endpoints: DataDirectory.Endpoints, _ version: Int64) throws(CommandFailure) {
        let json: JSONValue = [
            "edge": .string(endpoints.edge), "control": .string(endpoints.control),
            "token": .string(EmulatorData.token), "project": .string(scope.project.description),
            "namespace": .string(scope.namespace.description), "versionNumber": .string(String(version)),
            "pid": .int(getpid()),
        ]
        try Output(isJSON: isJSON, palette: Palette(isOn: false))
            .line(isJSON ? json.text() : text(endpoints, version))
    }

    private func text(_ endpoints: DataDirectory.Endpoints, _ version: Int64) -> String {
        """
        The emulator is ready: project \(scope.project), version \(version). It keeps nothing; Ctrl-C ends it.

          Edge     \(endpoints.edge)
          Control  \(endpoints.control), token \(EmulatorData.token)

        Firebase in a page, before its first fetch:
          window.FIREBASE_REMOTE_CONFIG_URL_BASE = "\(endpoints.edge)";
          const real = window.fetch;
          window.fetch = (url, init) => real(typeof url === "string" ? url.replace(
            "https://firebaseinstallations.googleapis.com", "\(endpoints.edge)") : url, init);

        Firebase's Admin SDK for Node:
          export FIREBASE_REMOTE_CONFIG_URL_BASE=\(endpoints.control)
          initializeApp({ projectId: "\(scope.project)", credential: { getAccessToken: async () =>
            ({ access_token: "\(EmulatorData.token)", expires_in: 3600 }) } });

        Firebase on Android, iOS, Flutter, Unity: see deploy/docs/firebase.md.

        Here, in another terminal:
          export STALECAST_CONTROL=\(endpoints.control) STALECAST_EDGE=\(endpoints.edge)
          export STALECAST_TOKEN=\(EmulatorData.token) STALECAST_PROJECT=\(scope.project)
          stalecast watch
          stalecast set welcome_text=hello --create string
        """
    }
}
