import Testing

import StalecastLoad

struct EventScannerTests {
    private let stream = Transcript.beginning + Transcript.synced + Transcript.stale(17) + ": hb\n\n"

    @Test func findsTheSameWhereverTheStreamIsCut() {
        stream.cutEverywhere { parts in
            let scanner = EventScanner.after(parts)
            #expect(scanner.isSynced)
            #expect(scanner.newestVersion == 17)
            #expect(scanner.heartbeats == 1)
        }
    }

    @Test func findsTheSameByteByByte() {
        let scanner = EventScanner.after(stream.singleBytes)
        #expect(scanner.isSynced && scanner.newestVersion == 17 && scanner.heartbeats == 1)
    }

    @Test func anEventCountsOnlyOnceItsEmptyLineIsThere() {
        #expect(EventScanner.after(String(Transcript.stale(17).dropLast())).newestVersion == 0)
        #expect(!EventScanner.after(String(Transcript.synced.dropLast())).isSynced)
    }

    @Test func theGreatestVersionCounts() {
        #expect(EventScanner.after(Transcript.stale(17) + Transcript.stale(16)).newestVersion == 17)
    }

    @Test func namedEventsAndCommentsAreNoDelivery() {
        #expect(EventScanner.after("event: reset\n" + Transcript.stale(5)).newestVersion == 0)
        #expect(EventScanner.after(": \"latestTemplateVersionNumber\":\"5\"\n\n").newestVersion == 0)
        #expect(EventScanner.after("event: syncedish\ndata: 1\n\n").isSynced == false)
    }

    @Test func aNameLastsForOneEventOnly() {
        #expect(EventScanner.after("event: reset\ndata: 1\n\n" + Transcript.stale(5)).newestVersion == 5)
    }

    @Test func commentsBeforeSyncedAreNoHeartbeats() {
        #expect(EventScanner.after(": a\n\n" + Transcript.synced).heartbeats == 0)
    }

    @Test func linesMayEndInCRLF() {
        let scanner = EventScanner.after(stream.replacing("\n", with: "\r\n"))
        #expect(scanner.isSynced && scanner.newestVersion == 17 && scanner.heartbeats == 1)
    }

    @Test func aLineWithoutEndIsRefused() {
        #expect(EventScanner.after(String(repeating: "x", count: 70_000)).isBroken)
        #expect(!EventScanner.after(String(repeating: "x", count: 60_000)).isBroken)
    }
}
