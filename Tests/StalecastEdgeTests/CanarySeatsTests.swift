import CLinux
import Glibc
import StalecastEdge
import StalecastHub
import StalecastWire
import Synchronization
import Testing

/// Tests what a loop writes to the canaries of its scopes, and when.
@Suite struct CanarySeatsTests {
    /// Announcements of versions 1 to 3 of ``LiveEdge/scope``; the last one is not announced.
    private func announcements() throws -> [TopicBoard.Announcement] {
        let hub = Hub(
            board: TopicBoard(
                epoch: .random(), head: 0, projects: ["demo": LiveEdge.scope.project],
                bindings: [TopicBinding(name: .pushRC, scopes: [LiveEdge.scope])], changes: []),
            herds: [:])
        let heard = Mutex<[TopicBoard.Announcement]>([])
        _ = hub.attach { event in
            if case .announcement(let announcement) = event { heard.withLock { $0.append(announcement) } }
        }
        for number in 1...3 {
            let metadata = VersionMetadata(number: VersionNumber(clamping: number), updateTime: .now())
            let change = TemplateChange(
                scope: LiveEdge.scope, sequence: CommitSequence(number), metadata: metadata, etag: "e\(number)",
                changedKeys: nil)
            let time = CanarySeats.pace + UInt64(number)
            if number < 3 { hub.announce(change, at: time) } else { hub.pass(change, at: time) }
        }
        return heard.withLock { $0 }
    }

    private struct Pair {
        let end: CanaryEnd
        let (written, read): (Int32, Int32)

        init() throws {
            var ends: [Int32] = [-1, -1]
            let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
            try #require(socketpair(AF_UNIX, kind, 0, &ends) == 0)
            (written, read) = (ends[0], ends[1])
            end = CanaryEnd(written)
        }

        /// Bytes that are there; nil at the end of the stream.
        func bytes() -> String? {
            var bytes = [UInt8](repeating: 0, count: 1 << 16)
            let count = recv(read, &bytes, bytes.count, Int32(MSG_DONTWAIT))
            return count == 0 ? nil : String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
        }
    }

    private func isOf(_ version: Int, _ text: String?) -> Bool {
        text?.contains("\"latestTemplateVersionNumber\":\"\(version)\"") ?? false
    }

    @Test func aMessageThatWaitsIsNotDisplacedByAVersionWithoutOne() throws {
        let (pair, run) = (try Pair(), try announcements())
        defer { close(pair.read) }
        var seats = CanarySeats()
        seats.add(pair.end, of: LiveEdge.scope)
        seats.tell([run[0]])
        #expect(isOf(1, pair.bytes()))
        seats.tell([run[1]])
        seats.tell([run[2]])
        #expect(pair.bytes() == "", "the second comes too soon after the first")
        seats.tellLate(at: 2 * CanarySeats.pace)
        #expect(pair.bytes() == "", "it is not due yet")
        seats.tellLate(at: 2 * CanarySeats.pace + 1)
        #expect(isOf(2, pair.bytes()))
        seats.tellLate(at: 9 * CanarySeats.pace)
        #expect(pair.bytes() == "")
    }

    @Test func ofTwoVersionsInOneTurnTheNewestIsWritten() throws {
        let (pair, run) = (try Pair(), try announcements())
        defer { close(pair.read) }
        var seats = CanarySeats()
        seats.add(pair.end, of: LiveEdge.scope)
        seats.tell(run)
        let text = pair.bytes()
        #expect(isOf(2, text) && !isOf(1, text))
    }

    @Test func aCanaryWhoseBufferIsFullSeesTheEnd() throws {
        let (pair, run) = (try Pair(), try announcements())
        defer { close(pair.read) }
        var seats = CanarySeats()
        seats.add(pair.end, of: LiveEdge.scope)
        let junk = [UInt8](repeating: 32, count: 1 << 16)
        while send(pair.written, junk, junk.count, Int32(MSG_NOSIGNAL)) > 0 {}
        seats.tell([run[0]])
        #expect(seats.scopes.isEmpty)
        while let text = pair.bytes() { try #require(!text.isEmpty, "the stream is still open") }
    }
}
