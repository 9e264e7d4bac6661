import StalecastHTTP
import StalecastWire

/// Room at the cap of connections: silent connections must not keep clients out.
extension Shard {
    /// Slots that one look passes over: a look costs little however many streams there are, and the next one goes on
    /// there.
    private static let slotsPerLook: Int32 = 64

    /// Closes a connection that has asked nothing for ``ConnectionCaps/silence``, here at once or soon in the Front. A
    /// stream, a held poll or an answer under way is never closed.
    ///
    /// - Returns: false when none was found.
    @discardableResult
    func makeRoom() -> Bool {
        for _ in 0..<min(Self.slotsPerLook, slots.end) {
            lastLook = lastLook + 1 < slots.end ? lastLook + 1 : 0
            guard isSilent(lastLook) else { continue }
            release(lastLook, headReason(lastLook))
            return true
        }
        return makeRoomInFront()
    }

    private func isSilent(_ index: Int32) -> Bool {
        let slot = slots[index].pointee
        // The body of a fetch is on its way.
        guard slot.phase == .head, slot.input.waits == 0, slot.timer.due > 0 else { return false }
        let limit = slot.times.deadline == 0 ? settings.connections.headTimeout : settings.connections.idleTimeout
        let silence = TimerWheel.ticks(settings.caps.silence.milliseconds)
        return slot.timer.due + silence <= audience.wheel.now + TimerWheel.ticks(limit.milliseconds)
    }
}
