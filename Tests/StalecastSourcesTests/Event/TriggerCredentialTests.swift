import Crypto
import Foundation
import StalecastSources
import StalecastWire
import Testing

@Suite struct TriggerCredentialTests {
    private static let now = Timestamp(microseconds: 1_614_265_330_000_000)

    @Test func aTokenMatchesItselfAndNothingElse() throws {
        let tokens = try ["first-0123456789abcdef01", "other-0123456789abcdef01"].map { try TriggerToken($0) }
        #expect(TriggerToken.matches("first-0123456789abcdef01", among: tokens) == [0])
        #expect(TriggerToken.matches("other-0123456789abcdef01", among: tokens) == [1])
        for wrong in ["", "first-0123456789abcdef0", "first-0123456789abcdef011", "FIRST-0123456789abcdef01"] {
            #expect(TriggerToken.matches(wrong, among: tokens).isEmpty)
        }
    }

    @Test(arguments: [
        "", "short", "0123456789abcdef0123456", "0123456789abcdef 0123456789", "0123456789abcdef0123456+",
    ])
    func aTokenThatIsWeakOrUnsafeInAURLIsRefused(text: String) {
        let error = #expect(throws: InvalidValue.self) { try TriggerToken(text) }
        #expect(error?.description.contains("openssl") == true)
    }

    private static func headers(
        id: String? = "msg_1", timestamp: String? = "1614265330", signature: String? = "v1,xyz"
    ) -> [String: String] {
        var headers: [String: String] = [:]
        headers["webhook-id"] = id
        headers["webhook-timestamp"] = timestamp
        headers["webhook-signature"] = signature
        return headers
    }

    @Test func aSignedPostHasThreeHeaders() throws {
        let post = try #require(SignedPost(headers: Self.headers(), now: Self.now))
        #expect(post.id == "msg_1")
        #expect(SignedPost(headers: Self.headers(id: nil), now: Self.now) == nil)
        #expect(SignedPost(headers: Self.headers(timestamp: nil), now: Self.now) == nil)
        #expect(SignedPost(headers: Self.headers(signature: nil), now: Self.now) == nil)
        #expect(SignedPost(headers: Self.headers(signature: ""), now: Self.now) == nil)
    }

    @Test(arguments: [("1614265030", true), ("1614265630", true), ("1614265029", false), ("1614265631", false)])
    func theTimestampIsWithinTolerance(timestamp: String, isGood: Bool) {
        #expect((SignedPost(headers: Self.headers(timestamp: timestamp), now: Self.now) != nil) == isGood)
    }

    @Test(arguments: ["", "-1614265330", "1614265330.0", " 1614265330", "0x60378332", "99999999999999999999", "soon"])
    func aTimestampIsANumberOfSeconds(timestamp: String) {
        #expect(SignedPost(headers: Self.headers(timestamp: timestamp), now: Self.now) == nil)
    }

    @Test(arguments: ["", "a.b", String(repeating: "x", count: 257)])
    func anIdThatMakesTheSignedTextAmbiguousIsRefused(id: String) {
        #expect(SignedPost(headers: Self.headers(id: id), now: Self.now) == nil)
    }

    /// A stranger's header may not decide how often the body is hashed.
    @Test func moreSignaturesThanAnySenderHasAreRefusedBeforeAnyIsChecked() {
        let word = "v1," + String(repeating: "A", count: 44)
        let words = { (count: Int) in Array(repeating: word, count: count).joined(separator: " ") }
        #expect(SignedPost(headers: Self.headers(signature: words(16)), now: Self.now) != nil)
        #expect(SignedPost(headers: Self.headers(signature: words(17)), now: Self.now) == nil)
        #expect(SignedPost(headers: Self.headers(signature: words(3800)), now: Self.now) == nil)
        let long = "v1," + String(repeating: "A", count: 1600)
        #expect(SignedPost(headers: Self.headers(signature: long), now: Self.now) == nil)
    }
}
