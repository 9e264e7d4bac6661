import Foundation
import StalecastSources
import StalecastTemplate
import StalecastTestSupport
import StalecastWire
import Testing

/// Numbers that origins, senders and file systems tell.
@Suite struct BoundaryNumberTests {
    @Test(arguments: boundaryNumbers) func anOriginsVersionIsInRangeOrRefused(number: String) throws {
        var reading = ContentReading()
        reading.version = try JSONPointer("/rev")
        reading.content = try JSONPointer("/t")
        for value in [number, "\"\(number)\""] {
            for (body, type) in [
                ("{\"rev\":\(value),\"t\":{\"parameters\":{}}}", "application/json"),
                ("rev: \(value)\nt: {parameters: {}}\n", "application/yaml"),
            ] {
                let content = try? reading.read(Array(body.utf8), contentType: type, kind: .client)
                guard let version = content?.version else { continue }
                #expect(version > 0 && version <= .max)
            }
        }
    }

    @Test(arguments: boundaryNumbers) func aStreamsNumbersAreInRange(number: String) throws {
        for value in [number, "\"\(number)\""] {
            let message = "{\"latestTemplateVersionNumber\":\(value),\"retryIntervalSeconds\":\(value)}"
            var parser = InvalidationParser()
            for invalidation in (try? parser.receive(message.utf8)) ?? [] {
                if let version = invalidation.version { #expect(version > 0 && version <= .max) }
                if let pause = invalidation.retryInterval { #expect(pause >= .zero && pause <= .seconds(3600)) }
            }
        }
    }

    @Test(arguments: boundaryNumbers) func aTriggersTimeIsJudged(number: String) {
        for now in [Int64.min, 0, .max] {
            let headers = ["webhook-id": "a", "webhook-timestamp": number, "webhook-signature": "v1,a"]
            _ = SignedPost(headers: headers, now: Timestamp(microseconds: now))
        }
    }

    /// File systems keep any 64 bits of seconds, or clamp them; sparse files have any size.
    @Test(arguments: boundaryNumbers) func anyTimeAndSizeOfAFileIsRead(number: String) async throws {
        guard let value = Int(number) else { return }
        let directory = try TemporaryDirectory()
        for name in ["a.json", "b.json", "c.json"] {
            try directory.write(Data("{\"parameters\":{}}".utf8), to: name)
            let times = [timespec(tv_sec: value, tv_nsec: 0), timespec(tv_sec: value, tv_nsec: 999_999_999)]
            // Some file systems refuse some of them; the others are what is tested.
            _ = utimensat(AT_FDCWD, directory.file(name), times, 0)
        }
        for path in [directory.file("a.json"), directory.path] {
            _ = await FileSource(path: path, kind: .client, watch: nil, maxBytes: 1 << 20, quiet: .zero).poll()
        }
        for name in ["b.json", "c.json"] { _ = truncate(directory.file(name), value) }
        _ = await FileSource(path: directory.path, kind: .client, watch: nil, maxBytes: 1 << 20, quiet: .zero).poll()
    }
}
