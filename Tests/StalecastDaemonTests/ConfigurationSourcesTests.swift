import StalecastDaemon
import StalecastOutbound
import StalecastSources
import Testing

@Suite struct ConfigurationSourcesTests {
    private func feeds(_ entries: String) throws -> [Configuration.Feed] {
        try load("sources:\n  scopes: [\(entries)]").sources.scopes
    }

    private func complaints(_ entries: String) -> [String] { problems("sources:\n  scopes: [\(entries)]") }

    @Test func everyKindNeedsLittle() throws {
        let file = try #require(try feeds("{scope: demo/firebase, kind: file, path: t.json}").first)
        #expect(file.path == "t.json")
        #expect(file.serve == .full)
        #expect(file.effectiveInterval == .seconds(5))
        let http = try #require(try feeds("{scope: demo/firebase, kind: http, url: \"https://o.example/t\"}").first)
        #expect(http.url == "https://o.example/t")
        #expect(http.effectiveInterval == .seconds(30))
        let firebase = try #require(try feeds("{scope: demo/firebase, kind: firebase}").first)
        #expect(firebase.url == nil)
        let store = try #require(try feeds("{scope: demo/firebase, kind: store, herdBudget: 500}").first)
        #expect(!store.isFed)
        #expect(store.herd.budget == 500)
    }

    @Test func everyKeyIsRead() throws {
        let feed = try #require(
            try feeds(
                """
                {scope: demo/firebase, kind: http, url: "https://o.example/t", interval: 250ms, serve: notify,
                 maxAge: 10m, herdBudget: 100, herdBudgetLeast: 20,
                 herdBudgetMost: 300, herdLongest: 1m, format: yaml, shape: values, contentPointer: /a,
                 versionPointer: /v, maxBytes: 1MiB, timeout: 3s, headers: {X-Team: blue}, tokenFile: t, caFile: c,
                 certificateFile: d, keyFile: e, fenceUrl: "https://p.example", fenceProof: pointer, fencePointer: /w,
                 fenceWait: 5s, triggerTokenFiles: [x], triggerSecretFiles: [y, z]}
                """
            ).first)
        #expect(feed.interval == .milliseconds(250))
        #expect(feed.serve == .notify)
        #expect((feed.herd.budget, feed.herd.least, feed.herd.most) == (100, 20, 300))
        #expect(feed.maxAge == .seconds(600))
        #expect((feed.document.format, feed.document.shape) == (.yaml, .values))
        #expect((feed.document.content.description, feed.document.version?.description) == ("/a", "/v"))
        #expect(feed.maxBytes == 1 << 20)
        #expect(feed.access.headers.map(\.name) == ["X-Team"])
        #expect((feed.fence.proof, feed.fence.pointer?.description) == (.pointer, "/w"))
        #expect(feed.fence.wait == .seconds(5))
        #expect(feed.triggers.secretFiles == ["y", "z"])
    }

    @Test(arguments: [
        ("{kind: file, path: t}", "has no scope"),
        ("{scope: demo/firebase, kind: ftp}", "store, file, http or firebase"),
        ("{scope: demo/firebase, kind: file}", "has no path"),
        ("{scope: demo/firebase, kind: http}", "has no url"),
        ("{scope: demo, kind: file, path: t}", "PROJECT/NAMESPACE"),
        ("{scope: demo/other, kind: file, path: t}", "there is no scope demo/other"),
        ("{scope: demo/firebase, kind: file, path: t, url: \"https://x.example\"}", "means nothing for kind file"),
        ("{scope: demo/firebase, kind: store, interval: 1s}", "means nothing for kind store"),
        (
            "{scope: demo/firebase, kind: file, path: t, intervall: 1s}",
            "nearest known key is sources.scopes[0].interval"
        ),
        ("{scope: demo/firebase, kind: file, path: t, interval: 5}", "write a whole number and its unit"),
        ("{scope: demo/firebase, kind: http, url: \"ftp://x.example\"}", "must begin with https://"),
        ("{scope: demo/firebase, kind: http, url: \"http://x.example\", contentPointer: a}", "pointer"),
        ("{scope: demo/firebase, kind: firebase, url: \"http://x.example?a=b\"}", "has a query"),
        ("{scope: demo/firebase, kind: firebase, tokenFile: a, serviceAccountFile: b}", "exclude each other"),
        ("{scope: demo/firebase, kind: firebase, keyFile: b}", "go together"),
        ("{scope: demo/firebase, kind: firebase, fencePointer: /a}", "has no fenceUrl"),
        ("{scope: demo/firebase, kind: firebase, fenceUrl: \"http://x.example\", fencePointer: /a}", "go together"),
        (
            "{scope: demo/firebase, kind: file, path: t, fenceUrl: \"http://x.example\", fenceProof: fetch}",
            "use content or etag"
        ),
        (
            "{scope: demo/firebase, kind: http, url: \"http://x.example\", headers: {Content-Length: 5}}",
            "set by the daemon itself"
        ),
        (
            "{scope: demo/firebase, kind: http, url: \"http://x.example\", headers: {\"bad name\": x}}",
            "is no header name"
        ),
    ])
    func mistakesAreNamed(entry: String, words: String) {
        let found = complaints(entry)
        #expect(found.contains { $0.contains(words) }, "\(found)")
    }

    @Test func aScopeHasOneSource() {
        let entry = "{scope: demo/firebase, kind: file, path: t}"
        #expect(complaints("\(entry), \(entry)").first?.contains("is already sources.scopes[0]") == true)
    }

    @Test func secretsAreNotPrinted() throws {
        let feed = try #require(
            try feeds("{scope: demo/firebase, kind: http, url: \"http://x.example\", headers: {X-Key: hush}}").first)
        #expect(!"\(feed)".contains("hush"))
        #expect(!"\([feed])".contains("hush"))
    }

    @Test func everyKeyIsExplained() {
        for name in ["scope", "kind", "fenceProof", "triggerSecretFiles", "herdBudget", "serviceAccountFile"] {
            #expect(ConfigurationReference.text.contains("# - \(name): "))
        }
    }
}
