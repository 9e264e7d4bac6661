import Foundation
import StalecastClient
import Testing

/// Whatever happens, what is in force is some published version, whole, and never an older one without a rollback.
@Suite struct HistoryTests {
    @Test(arguments: 1...12 as ClosedRange<UInt64>)
    func activeValuesAreAlwaysThoseOfOneVersion(seed: UInt64) async throws {
        var random = SplitMix(state: seed)
        let server = LocalConfigServer(values: ["a": "1", "b": "1"])
        let directory = scratchDirectory()
        var app = StalecastApp.test(server, directory: directory)
        var lowest: Int64 = 0
        for step in 0..<200 {
            switch Int.random(in: 0..<12, using: &random) {
            case 0, 1, 2: server.publish(["a": "\(server.version + 1)", "b": "\(server.version + 1)"])
            case 3: server.rollback(to: Int64.random(in: 1...server.version, using: &random))
            case 4, 5, 6: _ = try? await app.config.fetch(withExpirationDuration: 0)  // it may fail or be throttled
            case 7, 8: _ = try await app.config.activate()
            case 9: server.outage = Bool.random(using: &random) ? .unreachable : nil
            case 10:
                // The process is killed and started again.
                app.delete()
                app = StalecastApp.test(server, directory: directory)
            default:
                app.delete()
                if try damage(directory, &random) { lowest = 0 }
                app = StalecastApp.test(server, directory: directory)
            }
            let version = app.config.activeVersion ?? 0
            #expect(version >= lowest, "step \(step)")
            lowest = version
            guard version > 0 else { continue }
            let expected = try #require(server.values(ofVersion: version))
            #expect(app.config["a"].stringValue == expected["a"] && app.config["b"].stringValue == expected["b"])
        }
        server.outage = nil
        server.publish(["a": "end", "b": "end"])
        let last = StalecastApp.test(server)
        try await last.config.fetchAndActivate()
        #expect(last.config["a"].stringValue == "end")
        for each in [app, last] { each.delete() }
    }

    /// Cuts a cache file or changes a byte of it; true when there was one.
    private func damage(_ directory: URL, _ random: inout SplitMix) throws -> Bool {
        let file = directory.appendingPathComponent("test@firebase")
        guard var bytes = try? Data(contentsOf: file), !bytes.isEmpty else { return false }  // nothing written yet
        let place = Int.random(in: 0..<bytes.count, using: &random)
        if Bool.random(using: &random) { bytes = bytes.prefix(place) } else { bytes[place] ^= 0x55 }
        try bytes.write(to: file)
        return true
    }

    @Test func aThousandPublishesEndAtTheLast() async throws {
        let server = LocalConfigServer(values: ["a": "0"])
        let apps = (0..<20).map { StalecastApp.test(server, name: "app\($0)") }
        defer { for app in apps { app.delete() } }
        for app in apps { app.config.addOnConfigUpdateListener { _, _ in Task { try await app.config.activate() } } }
        #expect(await eventually { server.listenerCount == apps.count })
        for number in 1...1000 { server.publish(["a": "\(number)"]) }
        #expect(await eventually { apps.allSatisfy { $0.config["a"].stringValue == "1000" } })
    }
}

/// The same numbers for the same seed.
private struct SplitMix: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var value = state
        value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
        return value ^ (value >> 31)
    }
}
