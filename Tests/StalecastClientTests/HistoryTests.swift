import Foundation
import StalecastClient
import Synchronization
import StalecastTestSupport
import Testing

/// Tests that a published version is in force, whole, and never an older one without a rollback.
@Suite struct HistoryTests {
    @Test(arguments: 1...(isLongRun ? 24 : 8) as ClosedRange<UInt64>)
    func activeValuesAreAlwaysThoseOfOneVersion(seed: UInt64) async throws {
        var random = SeededRandom(seed: seed)
        let phone = Phone(listening: seed.isMultiple(of: 2) ? .activating : .only)
        let server = phone.server
        for step in 0..<150 {
            switch Int.random(in: 0..<16, using: &random) {
            case 0, 1, 2: phone.publish()
            case 3: server.rollback(to: Int64.random(in: 1...server.version, using: &random))
            case 4, 5: _ = try? await phone.config.fetch(withExpirationDuration: 0)  // there may be an outage
            case 6, 7: try await phone.config.activate()
            case 8: server.outage = Bool.random(using: &random) ? .unreachable : nil
            case 9: server.losesMessages = Bool.random(using: &random)
            // Never for as long as older answers are kept out: the clock moves for 75 s in all.
            case 10: server.lag = Int.random(in: 0...2, using: &random)
            case 11, 12: phone.clock.advance(by: 0.5)
            case 13: await phone.restart()
            case 14: try await phone.killDuringAWrite(&random)
            default: try await phone.restart(damaging: &random)
            }
            try phone.check("seed \(seed), step \(step)")
        }
        server.outage = nil
        server.lag = 0
        // The last message is lost too. What makes up for it is the connection that comes back.
        server.losesMessages = true
        let last = phone.publish()
        server.losesMessages = false
        try await eventually("seed \(seed): the app has version \(last)") {
            phone.clock.advance(by: 1)
            return phone.config.fetchedVersion == last
        }
        try await phone.config.activate()
        #expect(phone.config.activeVersion == last && phone.config["a"].stringValue == "\(last)")
        #expect(!phone.config.isStale)
        phone.app.delete()
    }

    /// A kill while the cache is written leaves the old file, and beside it any part of the new one.
    @Test func aKillAtAnyByteOfAWriteLeavesTheOldOrTheNew() async throws {
        let phone = Phone(listening: .none)
        try await phone.config.fetchAndActivate()
        let old = try Data(contentsOf: phone.file)
        phone.publish()
        try await phone.config.fetch(withExpirationDuration: 0)
        try await phone.config.activate()
        await phone.end()
        let new = try Data(contentsOf: phone.file)
        #expect(old != new)
        for length in 0...new.count {
            try old.write(to: phone.file)
            try new.prefix(length).write(to: phone.draft)
            phone.start()
            #expect(phone.config.activeVersion == 1 && phone.config["a"].stringValue == "1", "\(length) bytes")
            phone.app.delete()
        }
        #expect(phone.problems == 0)
        try FileManager.default.removeItem(at: phone.file)
        try FileManager.default.moveItem(at: phone.draft, to: phone.file)
        phone.start()
        #expect(phone.config.activeVersion == 2 && phone.config["a"].stringValue == "2")
        phone.app.delete()
    }

    @Test func aThousandPublishesEndAtTheLast() async throws {
        let server = LocalConfigServer(values: ["a": "0"])
        let apps = (0..<20).map { StalecastApp.test(server, name: "app\($0)") }
        defer { for app in apps { app.delete() } }
        for app in apps { app.config.addOnConfigUpdateListener { _, _ in Task { try await app.config.activate() } } }
        try await eventually { server.listenerCount == apps.count }
        for number in 1...1000 { server.publish(["a": "\(number)"]) }
        try await eventually { apps.allSatisfy { $0.config["a"].stringValue == "1000" } }
    }
}

/// An app whose process ends and begins anew on one cache, and the server it listens to.
private final class Phone {
    let server = LocalConfigServer(values: ["a": "1", "b": "1"])
    let clock = TestClock()
    private(set) var app: StalecastApp
    private let listening: Listening
    private let directory = scratchDirectory()
    private let callbacks = DispatchQueue(label: "phone")
    private let reported = Count()
    /// No version below this may be in force.
    private var lowest: Int64 = 0

    /// Use that the app makes of updates.
    enum Listening {
        case none, only, activating
    }

    init(listening: Listening) {
        self.listening = listening
        app = StalecastApp.test(server)
        app.delete()
        start()
    }

    var config: RemoteConfig { app.config }
    var file: URL { directory.appendingPathComponent("test@firebase") }
    var draft: URL { directory.appendingPathComponent("test@firebase.1a2b3c4d.new") }
    /// Damages of the cache that the app reported.
    var problems: Int { reported.value.withLock { $0 } }

    /// A new version, both of whose values are its number.
    @discardableResult
    func publish() -> Int64 {
        let number = "\(server.version + 1)"
        return server.publish(["a": number, "b": number])
    }

    /// The process begins: it reads the cache, and listens.
    func start() {
        app = StalecastApp.test(server, clock: clock, directory: directory) { [callbacks, reported] options in
            options.callbackQueue = callbacks
            options.onProblem = { if case .cacheDamaged = $0 { reported.value.withLock { $0 += 1 } } }
        }
        let config = config
        guard listening != .none else { return }
        config.addOnConfigUpdateListener { [listening] update, _ in
            if listening == .activating, update != nil { config.activate(completion: nil) }
        }
    }

    /// The process ends. A killed one writes no more; this one is waited for until it does not.
    func end() async {
        app.delete()
        let outage = server.outage
        server.outage = .unreachable
        // A fetch under way is joined; another brings nothing.
        _ = try? await config.fetch(withExpirationDuration: 0)
        server.outage = outage
        await withCheckedContinuation { done in callbacks.async { done.resume() } }
        _ = try? await config.setCustomSignals([:])
    }

    func restart() async {
        await end()
        start()
    }

    /// Cuts the cache, or changes a byte of it, between two processes: then all begins anew.
    func restart(damaging random: inout SeededRandom) async throws {
        await end()
        // Nothing may have been written yet.
        if var bytes = try? Data(contentsOf: file), !bytes.isEmpty {
            let place = Int.random(in: 0..<bytes.count, using: &random)
            if Bool.random(using: &random) { bytes = bytes.prefix(place) } else { bytes[place] ^= 0x55 }
            try bytes.write(to: file)
            lowest = 0
        }
        start()
    }

    /// The process is killed while it writes what a fetch and an activation made of the cache: what was durable before
    /// is there, and perhaps a part of the new file, or the new file alone.
    func killDuringAWrite(_ random: inout SeededRandom) async throws {
        // What was seen so far is durable.
        try await config.setCustomSignals([:])
        let old = try? Data(contentsOf: file)
        _ = try? await config.fetch(withExpirationDuration: 0)
        try await config.activate()
        await end()
        let new = try? Data(contentsOf: file)
        if let old, let new, Bool.random(using: &random) {
            try old.write(to: file)
            try new.prefix(Int.random(in: 0...new.count, using: &random)).write(to: draft)
        }
        start()
    }

    /// Checks that a published version is in force, whole, and none older than before.
    func check(_ place: String) throws {
        var (version, pair) = (config.activeVersion ?? 0, try? config.decoded(asType: Pair.self))
        // The listener may have activated in between.
        while let now = config.activeVersion, now != version {
            (version, pair) = (now, try? config.decoded(asType: Pair.self))
        }
        #expect(version >= lowest, "\(place): \(version) after \(lowest)")
        lowest = version
        guard version > 0 else { return #expect(pair == nil, "\(place)") }
        let expected = try #require(server.values(ofVersion: version))
        #expect(pair.map { ["a": $0.a, "b": $0.b] } == expected, "\(place)")
    }

    private final class Count: Sendable { let value = Mutex(0) }

    private struct Pair: Decodable {
        var a: String
        var b: String
    }
}
