import Foundation
import Logging
import StalecastControl
import StalecastDaemon
import StalecastEdge
import StalecastHTTP
import Testing

@Suite struct ConfigurationLoaderTests {
    @Test(arguments: ["", "# nothing\n", "{}", "edge:\n", "edge: ~\nlog: null\n", "---\n...\n"])
    func nothingSaidMeansDefaults(text: String) throws {
        #expect(try load(text) == Configuration())
    }

    @Test func everyKindOfValueIsRead() throws {
        let configuration = try load(
            """
            data: /srv/stalecast
            edge:
              listen: "[::1]:0"
              streamEngine: false
              heartbeat: 500ms
              maxHeadBytes: 8KiB
              allowedOrigins: [https://app.example.com, "http://[::1]:3000"]
              poll: {defaultWait: 10s, maxWait: 2m}
            control: {staleETagStatus: 409, tokenFile: token}
            store: {maxVersionAge: 30d}
            log: {level: debug, format: json}
            """)
        #expect(configuration.data == "/srv/stalecast")
        #expect(configuration.edge.listen == ListenAddress(host: "::1", port: 0))
        #expect(!configuration.edge.streamEngine)
        #expect(configuration.edge.settings.times.heartbeat == .milliseconds(500))
        #expect(configuration.edge.settings.connections.maxHeadBytes == 8192)
        #expect(configuration.edge.settings.allowedOrigins == ["https://app.example.com", "http://[::1]:3000"])
        #expect(configuration.edge.settings.times.pollMaxWait == .seconds(120))
        #expect(configuration.control.settings.staleETagStatus == .conflict)
        #expect(configuration.control.tokenFile == "token")
        #expect(configuration.store.maxVersionAge == .seconds(30 * 86_400))
        #expect(configuration.log.level == .debug)
        #expect(configuration.log.format == .json)
    }

    @Test func environmentWinsOverTheFileAndFlagsOverBoth() throws {
        let text = "data: a\nedge: {listen: 127.0.0.1:1, retry: 1s}\nlog: {level: error}"
        let environment = [
            "STALECAST_EDGE_LISTEN": "127.0.0.1:2", "STALECAST_DATA": "b", "STALECAST_EDGE_RETRY": "",
            "STALECAST_EDGE_POLL_MAX_WAIT": "60s", "STALECAST_CONTROL_STALE_ETAG_STATUS": "409",
            "STALECAST_EDGE_ALLOWED_ORIGINS": "https://a.example, https://b.example",
        ]
        let overrides = ConfigurationOverrides(dataDirectory: "c", control: "127.0.0.1:3")
        let configuration = try ConfigurationLoader.load(
            text: text, file: "test.yaml", environment: environment, overrides: overrides)
        #expect(configuration.data == "c")
        #expect(configuration.edge.listen.port == 2)
        #expect(configuration.control.listen.port == 3)
        #expect(configuration.edge.settings.times.retry == .seconds(1), "an empty variable counts as not set")
        #expect(configuration.edge.settings.times.pollMaxWait == .seconds(60))
        #expect(configuration.control.settings.staleETagStatus == .conflict)
        #expect(configuration.edge.settings.allowedOrigins == ["https://a.example", "https://b.example"])
        #expect(configuration.log.level == .error)
    }

    @Test func everyFlagOfTheTableSetsItsOption() throws {
        let overrides = ConfigurationOverrides(
            dataDirectory: "d", edge: "0.0.0.0:1", control: "0.0.0.0:2", tlsCertificate: "c", tlsKey: "k",
            logLevel: "trace", logFormat: "json", proxied: true)
        let configuration = try ConfigurationLoader.load(text: "", file: "no file", overrides: overrides)
        let changed = configuration.changesNeedingRestart(from: Configuration())
        let live = configuration.liveChanges(from: Configuration())
        let flagged = ConfigurationOption.all.filter { $0.flag != nil }.map(\.path)
        #expect(Set(changed + live) == Set(flagged))
    }

    @Test func everyOptionButTheListsOfMappingsHasAVariableThatIsChecked() {
        for option in ConfigurationOption.all {
            guard let variable = option.variable else { continue }
            // No kind of value accepts a NUL character.
            let found = problems("", environment: [variable: "\0"])
            #expect(found.count == 1 && found[0].hasPrefix("\(variable): \(option.path): "), "\(found)")
        }
        let without = ConfigurationOption.all.filter { $0.variable == nil }.map(\.path)
        let lists = [
            "edge.tls.others", "control.tls.others", "auth.anonymous", "auth.keys", "auth.issuers", "auth.certificates",
        ]
        #expect(without == lists + ["projects", "topics", "releases", "sources.scopes", "webhooks.receivers"])
    }

    @Test func aFileThatCannotBeReadIsOneProblem() {
        #expect(throws: ConfigurationProblems.self) {
            try ConfigurationLoader.load(path: "/nowhere/stalecast.yaml", environment: [:])
        }
        #expect(throws: ConfigurationProblems.self) { try ConfigurationLoader.load(path: "/", environment: [:]) }
        #expect(throws: ConfigurationProblems.self) {
            try ConfigurationLoader.load(path: "/dev/zero", environment: [:])
        }
    }

    @Test func textThatIsNotUTF8IsNamedWithItsLine() throws {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID()).yaml").path
        defer { try? FileManager.default.removeItem(atPath: path) }  // nothing depends on it being gone
        try Data("data: x\nlog: \u{FF}".unicodeScalars.map { UInt8($0.value) }).write(to: URL(fileURLWithPath: path))
        do {
            _ = try ConfigurationLoader.load(path: path, environment: [:])
            Issue.record("bytes that are not UTF-8 were accepted")
        } catch {
            #expect("\(error)" == "\(path):2: this is not UTF-8 text")
        }
    }
}
