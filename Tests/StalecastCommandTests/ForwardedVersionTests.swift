import StalecastWire
import Testing
import stalecast

@Suite("Versions sent to an app that is not registered")
struct ForwardedVersionTests {
    private static let epoch = "abcdefghijklmnopqrstuvwxyz"

    /// - Parameter rest: further members, with a comma before them.
    private static func version(
        _ number: Int, since: Int, keys: String?, _ rest: String = "", epoch: String = epoch
    ) throws -> ForwardedVersion {
        let keys = keys.map { #","changedKeys":\#($0)"# } ?? ""
        let data = """
            {"CONFIG_STATE":"STALE","topic":"PUSH_RC","project":"demo","namespace":"firebase",\
            "latestTemplateVersionNumber":"\(number)","sinceTemplateVersionNumber":"\(since)",\
            "updateTime":"2026-11-21T10:36:41.411042Z"\(keys),"fetchWindowMs":900\(rest)}
            """
        return try #require(ForwardedVersion(data, cursor: "\(epoch).\(number)"))
    }

    private static func body(_ version: ForwardedVersion) throws -> JSONValue { try JSONValue.parse(version.body) }

    @Test func theMessageIsThatOfARegisteredWebhook() throws {
        let body = try Self.body(Self.version(7, since: 6, keys: #"["a"]"#, #","reportRatio":0.5"#))
        #expect(body["type"]?.string == "config.stale" && body["timestamp"]?.string == "2026-11-21T10:36:41.411042Z")
        let data = try #require(body["data"])
        #expect(data["version"]?.int64 == 7 && data["sinceVersion"]?.int64 == 6 && data["coalesced"]?.int64 == 0)
        #expect(data["cursor"]?.string == Self.epoch + ".7")
        #expect(data["fetchWindowMs"]?.int64 == 0 && data["reportRatio"] == nil, "a webhook fetches at once")
    }

    @Test func aVersionStandsForThoseThatTheAppDidNotTake() throws {
        let both = try Self.version(9, since: 8, keys: #"["b","c"]"#)
            .covering(Self.version(8, since: 6, keys: #"["b","a"]"#))
        let data = try #require(try Self.body(both)["data"])
        #expect(data["sinceVersion"]?.int64 == 6 && data["coalesced"]?.int64 == 2)
        #expect(data["sinceTemplateVersionNumber"]?.string == "6" && data["changedKeys"] == ["a", "b", "c"])
    }

    @Test func anythingMayHaveChangedWhereOneMessageDoesNotSay() throws {
        let known = try Self.version(9, since: 8, keys: #"["b"]"#), unknown = try Self.version(8, since: 7, keys: nil)
        #expect(try Self.body(known.covering(unknown))["data"]?["changedKeys"] == nil)
        #expect(try Self.body(unknown.covering(known))["data"]?["changedKeys"] == nil)
        let many = "[" + (0..<64).map { #""k\#($0)""# }.joined(separator: ",") + "]"
        #expect(try Self.body(known.covering(Self.version(8, since: 7, keys: many)))["data"]?["changedKeys"] == nil)
    }

    @Test func versionsOfAnotherHistoryAreNotCovered() throws {
        let new = try Self.version(2, since: 1, keys: #"["b"]"#)
        let old = try Self.version(9, since: 3, keys: #"["a"]"#, epoch: String(Self.epoch.reversed()))
        #expect(new.covering(old).since == 1 && new.id != old.id)
    }

    @Test(arguments: ["", "plain", "[]", #"{"A":"1"}"#, #"{"latestTemplateVersionNumber":"1"}"#])
    func otherMessagesAreNotForwarded(data: String) {
        #expect(ForwardedVersion(data, cursor: Self.epoch + ".1") == nil)
    }
}
