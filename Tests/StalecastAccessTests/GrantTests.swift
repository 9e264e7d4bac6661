import StalecastAccess
import StalecastWire
import Testing

@Suite struct GrantTests {
    private func scope(_ text: String) throws -> Scope {
        let parts = text.split(separator: "/").map(String.init)
        return Scope(project: try ProjectID(parts[0]), namespace: try Namespace(parts[1]))
    }

    @Test func nothingIsPermittedWithoutAGrant() throws {
        let nobody = Principal(kind: .anonymous, id: "", grants: [])
        for action in AccessAction.allCases { #expect(!nobody.may(action, in: try scope("demo/firebase"))) }
    }

    @Test(
        "a role has its actions, and no others",
        arguments: [
            (AccessRole.viewer, "read"), (.publisher, "publish read"),
            (.operator, "fetch manage operate publish read watch"),
        ]) func roles(role: AccessRole, words: String) throws
    {
        let scope = try scope("demo/firebase")
        let grant = Grant(role: role)
        let permitted = AccessAction.allCases.filter { grant.permits($0, in: scope) }.map(\.rawValue).sorted()
        #expect(permitted.joined(separator: " ") == words)
    }

    @Test(
        "patterns are for the whole of one name",
        arguments: [
            ("demo", "demo", true), ("demo", "demo2", false), ("demo", "Demo", false), ("de*", "demo", true),
            ("*", "demo", true), ("d?mo", "demo", true), ("d?mo", "dmo", false), ("?", "é", false),
            ("demo*", "xdemo", false), ("*a*a*a*a*a*a*b", String(repeating: "a", count: 60), false),
        ]) func patterns(pattern: String, name: String, matches: Bool) throws
    {
        #expect(try Glob(ofNames: pattern).matches(name) == matches)
    }

    @Test func aGrantHoldsWhereAllItsPatternsDo() throws {
        let grant = Grant(
            actions: [.watch], projects: [try Glob(ofNames: "demo")], namespaces: [try Glob(ofNames: "firebase")],
            topics: [try Glob(ofNames: "PUSH_*")])
        let (ours, server) = (try scope("demo/firebase"), try scope("demo/firebase-server"))
        #expect(grant.permits(.watch, in: ours, .named(.pushRC)))
        #expect(!grant.permits(.watch, in: server, .named(.pushRC)))
        #expect(!grant.permits(.watch, in: try scope("other/firebase"), .named(.pushRC)))
        #expect(!grant.permits(.watch, in: ours, .named(try TopicName("OTHER"))))
        #expect(!grant.permits(.watch, in: ours, .named(try TopicName("%50USH_RC"))), "a name is what it is")
        #expect(!grant.permits(.watch, in: ours, .all), "PUSH_* is not everything that is said of the scope")
        #expect(!grant.permits(.fetch, in: ours))
    }

    @Test func whatIsForOneProjectIsNotForAll() throws {
        let one = Grant(role: .viewer, projects: [try Glob(ofNames: "demo")])
        #expect(!one.permitsEverywhere(.read) && Grant(role: .viewer).permitsEverywhere(.read))
    }

    @Test(
        "a grant that says nothing clear is refused",
        arguments: [
            "{}", #"{"role":"admin"}"#, #"{"role":1}"#, #"{"actions":["see"]}"#, #"{"role":"viewer","project":["a"]}"#,
            #"{"role":"viewer","projects":[]}"#, #"{"role":"viewer","projects":"demo"}"#,
            #"{"role":"viewer","projects":null}"#, #"{"actions":["watch"],"topics":null}"#, #"{"actions":null}"#,
            #"{"role":"viewer","projects":["a b"]}"#, #"{"role":"viewer","topics":[1]}"#, "[]",
        ]) func refused(text: String) throws
    {
        let json = try JSONValue.parse(text.utf8)
        #expect(throws: AccessProblem.self) { try Grant(json, at: "grants[0]") }
    }

    @Test func aGrantIsReadAsItWasWritten() throws {
        let grant = Grant(role: .viewer, actions: [.fetch], projects: [try Glob(ofNames: "a-*")])
        #expect(try Grant(grant.json, at: "x") == grant)
    }
}
