import StalecastDaemon
import StalecastWire
import Testing

/// Webhooks of the configuration file.
@Suite struct ConfigurationReceiverTests {
    private func text(_ entry: String) -> String {
        """
        topics: [{name: news, scopes: [demo/firebase]}]
        webhooks:
          receivers:
            - \(entry)
        """
    }

    @Test func anEntryBecomesTheDocumentTheAPIWouldBeSent() throws {
        let configuration = try load(
            """
            topics: [{name: news, scopes: [demo/firebase]}]
            webhooks:
              receivers:
                - name: deploy
                  url: https://w.example/hook
                  topics: [PUSH_RC, news]
                  secretFiles: [new.secret, old.secret]
                  format: cloudevents-binary
                  mode: fifo-advance
                  headers: {X-Team: apps, Authorization: Bearer x}
                  maxPerSecond: 2.5
                  timeout: 30s
                  minInterval: 500ms
                  verification: cloudevents
                  addressProfile: internal
                  description: tells the build
            """)
        let receiver = try #require(configuration.webhooks.receivers.first)
        #expect(receiver.name == "deploy" && receiver.project == .demo)
        #expect(receiver.secretFiles == ["new.secret", "old.secret"])
        #expect(
            receiver.document == [
                "url": "https://w.example/hook", "format": "cloudevents-binary", "mode": "fifo-advance",
                "description": "tells the build", "addressProfile": "internal",
                "headers": ["X-Team": "apps", "Authorization": "Bearer x"],
                "limits": ["maxPerSecond": .double(2.5), "timeout": "30s", "minInterval": "0.5s"],
                "verification": ["method": "cloudevents"], "topics": ["PUSH_RC", "news"],
            ] as JSONValue)
    }

    @Test(arguments: [
        ("{name: w, url: \"ftp://w.example\", secretFiles: [s]}", "webhooks.receivers[0].url"),
        ("{name: w, url: \"https://w.example\", secretFiles: [s], mode: never}", "webhooks.receivers[0].mode"),
        ("{name: w, url: \"https://w.example\", secretFiles: [s], timeout: 2m}", "webhooks.receivers[0].timeout"),
        ("{name: w, url: \"https://w.example\", secretFiles: [s], timeout: 15}", "webhooks.receivers[0].timeout"),
        ("{name: w, url: \"https://w.example\", secretFiles: [s], maxPerSecond: fast}", "maxPerSecond"),
        ("{name: w, url: \"https://w.example\", secretFiles: [s], headers: {Host: a}}", "set by the daemon itself"),
        ("{name: w, url: \"https://w.example\", secretFiles: [s], headers: [a]}", "must be a mapping"),
        (
            "{name: w, url: \"https://w.example\", secretFiles: [s], topics: [nobody]}",
            "no scope of demo is bound to nobody"
        ),
        ("{name: w, url: \"https://w.example\", secretFiles: [s], project: other}", "there is no project other"),
        ("{name: w, url: \"https://w.example\"}", "has no secretFiles"),
        ("{name: w, format: fcm, serviceAccountFile: a.json, secretFiles: [s]}", "format fcm does not sign"),
        ("{name: \"a b\", url: \"https://w.example\", secretFiles: [s]}", "1 to 64 characters"),
        ("{url: \"https://w.example\", secretFiles: [s]}", "name"),
        ("{name: w, url: \"https://w.example\", secretFiles: [s], colour: red}", "colour"),
    ])
    func whatIsWrongIsNamedWithItsLine(entry: String, words: String) {
        let found = problems(text(entry))
        #expect(found.count == 1 && found[0].hasPrefix("test.yaml:4: ") && found[0].contains(words), "\(found)")
    }

    @Test func namesAreUniqueWithinAProject() {
        let entry = "{name: w, url: \"https://w.example\", secretFiles: [s]}"
        let found = problems("webhooks: {receivers: [\(entry), \(entry)]}")
        #expect(found.count == 1 && found[0].contains("w is already webhooks.receivers[0]"), "\(found)")
    }

    @Test(arguments: ["10.0.0.0/33", "10.0.0.1/8", "localhost", "::1/129"])
    func whatIsNoAddressRangeIsRefused(range: String) {
        let found = problems("webhooks: {allowedAddresses: [\"\(range)\"]}")
        #expect(found.count == 1 && found[0].contains(range), "\(found)")
    }
}
