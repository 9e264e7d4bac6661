import StalecastControl
import StalecastHTTP
import StalecastStore
import StalecastWire
import Testing

@Suite("Outcome mapping")
struct OutcomeMappingTests {
    private static let scope = Scope(project: .demo, namespace: .firebase)
    private let mapping = OutcomeMapping()

    private func answer(_ error: StoreError, commits: Bool = true) -> GoogleError {
        mapping.answer(to: error, commits: commits, projectNumber: 123)
    }

    @Test func aStaleETagIsAFailedPreconditionInGooglesWords() {
        let error = answer(.versionMismatch(expected: 6, found: 8))
        #expect(error.code == 400)
        #expect(error.status == "FAILED_PRECONDITION")
        #expect(error.message == "[VERSION_MISMATCH]: Expected version 6, found 8 for project: 123")
    }

    @Test func aStaleETagCanBeConfiguredToBeAConflict() {
        let error = OutcomeMapping(staleETagStatus: .conflict)
            .answer(to: .versionMismatch(expected: 6, found: 8), commits: true, projectNumber: 123)
        #expect(error.code == 409)
        #expect(error.status == "ABORTED")
    }

    @Test func aFullDiskIsCertainlyNotCommittedAndMayBeRetried() {
        let error = answer(.diskFull("full"))
        #expect(error.code == 503)
        #expect(error.status == "UNAVAILABLE")
        #expect(error.details.first?["outcome"]?.string == "not_committed")
        #expect(error.fields.contains("Retry-After"))
        #expect(error.message.contains("certainly not committed"))
    }

    @Test func anUnknownOutcomeIsNever503() {
        let error = answer(.outcomeUnknown("fsync failed"))
        #expect(error.code == 500)
        #expect(error.status == "INTERNAL")
        #expect(error.details.first?["outcome"]?.string == "unknown")
    }

    @Test(arguments: [
        StoreError.versionMismatch(expected: nil, found: 1), .unknownVersion(3),
        .invalidRollback(target: 3, current: 2),
        .unknownProject(.demo), .diskFull(""), .unavailable(""), .readFailed(""), .notAStore(""), .damaged(""),
        .locked(""), .inaccessible(""), .misconfigured(""), .alreadyExists(""), .keyReused(3), .releaseOpen(3),
        .noRelease(Self.scope), .releaseRefused(""),
        .nothingToStageOver, .clusterWithoutReleases,
    ])
    func everyOtherErrorOfAPublishSaysNotCommitted(error: StoreError) {
        let mapped = answer(error)
        let saysSo = mapped.details.contains { $0["outcome"]?.string == "not_committed" }
        #expect((400..<500).contains(mapped.code) || saysSo)
    }

    @Test func aFailedReadSpeaksOfNoOutcome() {
        #expect(answer(.readFailed("x"), commits: false).details.isEmpty)
    }

    @Test func theEnvelopeHasABlankAfterTheCodesColon() throws {
        let body = GoogleError(403, "PERMISSION_DENIED", "no \"way\"").body
        #expect(String(decoding: body, as: UTF8.self).contains("\"code\": 403"))
        let error = try JSONValue.parse(body)["error"]
        #expect(error?["message"]?.string == "no \"way\"")
        #expect(error?["status"]?.string == "PERMISSION_DENIED")
    }
}
