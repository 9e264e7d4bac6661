import StalecastHub
import StalecastWire
import Synchronization

/// A hub, a clock that is moved by hand, and clients by their names.
final class Crowd: Sendable {
    let hub: Hub

    init(_ limits: RolloutTracker.Limits = .init(), bindings: [TopicBinding] = TopicBoard.bindings) {
        let box = ClockBox()
        self.box = box
        hub = Hub(
            board: .make(bindings: bindings),
            propagation: RolloutTracker(limits, clock: { box.now }, wall: { Timestamp(microseconds: 5) }))
    }

    private let box: ClockBox

    final class ClockBox: Sendable {
        private let time = Mutex<UInt64>(1_000_000_000)
        var now: UInt64 { time.withLock { $0 } }
        func move(_ milliseconds: UInt64) { time.withLock { $0 += milliseconds * 1_000_000 } }
    }

    var book: RolloutTracker { hub.propagation }

    func wait(_ milliseconds: UInt64) { box.move(milliseconds) }

    func publish(_ version: VersionNumber, keys: [String]? = ["welcome"]) {
        hub.announce(.make(version, keys: keys), at: 0)
    }

    /// Ten clients `c0` to `c9` listened to version 1: the first four have it, six left after they were told.
    static func thatLostSix() -> Crowd {
        let crowd = Crowd()
        for number in 0..<10 { crowd.join("c\(number)") }
        crowd.publish(1)
        for number in 0..<4 { crowd.fetch("c\(number)", 1) }
        for number in 4..<10 { crowd.leave("c\(number)") }
        crowd.wait(11_000)
        return crowd
    }

    static func client(_ name: String, active: VersionNumber? = nil) -> ClientIdentity {
        ClientIdentity(name, app: "app", sdk: "1.0", active: active)!
    }

    func join(
        _ name: String, topic: Topic.Index? = nil, have: VersionNumber? = nil, active: VersionNumber? = nil,
        address: UInt64 = 1, isLimited: Bool = false
    ) {
        let board = hub.board
        _ = book.join(
            Self.client(name, active: active), of: [topic ?? board.push], on: board, from: ResumePoint(have: have),
            isPoll: false, address: (address, isLimited))
    }

    func leave(_ name: String) { book.left([Self.client(name).key(in: .demo)], isPoll: false) }

    func fetch(_ name: String, _ version: VersionNumber, active: VersionNumber? = nil) {
        book.fetched(Self.client(name, active: active), .demo, version, address: (1, false))
    }

    func claim(_ name: String, _ claim: ClientReport, address: UInt64 = 1) throws(ClientReport.Refusal) {
        try book.claimed(Self.client(name), .demo, claim, address: (address, true))
    }

    func clients(_ version: VersionNumber? = nil) -> RolloutStatus.Clients {
        book.propagation(of: .demo, version)?.clients ?? .init()
    }
}
