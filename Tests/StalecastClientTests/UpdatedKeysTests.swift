import Foundation
import StalecastClient
import StalecastTestSupport
import Testing

/// `updatedKeys` as the official SDKs compute it: against what is active, metadata included.
@Suite struct UpdatedKeysTests {
    /// The two contents as JSON members beside `state`, and what differs.
    @Test(
        arguments: [
            (#""entries":{"a":"1","b":"2"}"#, #""entries":{"a":"1","b":"3","c":"4"}"#, ["b", "c"]),
            (#""entries":{"a":"1","b":"2"}"#, #""entries":{"a":"1"}"#, ["b"]),
            (
                #""entries":{"a":"1"},"personalizationMetadata":{"a":{"armIndex":0,"choiceId":"x"}}"#,
                #""entries":{"a":"1"},"personalizationMetadata":{"a":{"choiceId":"y","armIndex":0}}"#, ["a"]
            ),
            (
                #""entries":{"a":"1"},"personalizationMetadata":{"a":{"armIndex":0,"choiceId":"x"}}"#,
                #""entries":{"a":"1","z":"1"},"personalizationMetadata":{"a":{"choiceId":"x","armIndex":0}}"#, ["z"]
            ),
            (
                #""entries":{"a":"1"},"rolloutMetadata":[{"rolloutId":"r","variantId":"1","affectedParameterKeys":["a"]}]"#,
                #""entries":{"a":"1"},"rolloutMetadata":[{"rolloutId":"r","variantId":"2","affectedParameterKeys":["a"]}]"#,
                ["a"]
            ),
            (
                #""entries":{"a":"1"},"rolloutMetadata":[{"rolloutId":"r","variantId":"1","affectedParameterKeys":["a"]}]"#,
                #""entries":{"a":"1","b":"1"}"#, ["a", "b"]
            ),
            (
                #""entries":{"a":"1"}"#,
                #""entries":{"a":"1"},"experimentDescriptions":[{"experimentId":"_exp_1","variantId":"0","affectedParameterKeys":["a"]}]"#,
                ["a"]
            ),
            (
                #""entries":{"a":"1"},"experimentDescriptions":[{"experimentId":"_exp_1","timeToLiveMillis":"5","affectedParameterKeys":["a"]}]"#,
                #""entries":{"a":"1"},"experimentDescriptions":[{"experimentId":"_exp_1","timeToLiveMillis":"6","affectedParameterKeys":["a"]}]"#,
                ["a"]
            ),
            (
                #""entries":{"a":"1"}"#,
                #""entries":{"a":"1","b":"1"},"experimentDescriptions":[{"experimentId":"_exp_rollout_1","affectedParameterKeys":["a"]}]"#,
                ["b"]
            ),
            (
                #""entries":{"a":"1"}"#, #""entries":{"a":"1"},"experimentDescriptions":[{"experimentStartTime":"x"}]"#,
                []
            ),
        ] as [(String, String, [String])])
    func keysDifferByValueOrMetadata(before: String, after: String, differing: [String]) async throws {
        let server = ScriptedTransport { _, count in
            .json(
                #"{\#(count == 0 ? before : after),"state":"UPDATE","templateVersion":"\#(count + 1)"}"#,
                etag: "etag-\(count)")
        }
        let app = StalecastApp.test(server)
        try await app.config.fetchAndActivate()
        let heard = Heard()
        app.config.addOnConfigUpdateListener(remoteConfigUpdateCompletion: heard.hear)
        let activated = Heard()
        app.config.addOnActivateListener { activated.hear(keys: $0) }
        app.received(.stale(StaleNotice(version: 2)))
        try await eventually {
            app.config.fetchedVersion == 2 && !app.config.isStale && (differing.isEmpty || !heard.updates.isEmpty)
        }
        try await app.config.activate()
        try await eventually { activated.updates.count == 1 }
        #expect(activated.updates == [Set(differing)])
        #expect(heard.updates == (differing.isEmpty ? [] : [Set(differing)]))
        #expect(server.received.last?.headers["X-Firebase-RC-Fetch-Type"] == "REALTIME/1")
        app.delete()
    }
}
