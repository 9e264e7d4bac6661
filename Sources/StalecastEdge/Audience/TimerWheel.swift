/// Ticks since the shard started; a tick is ``TimerWheel/tickNanoseconds`` long.
package typealias Tick = UInt32

/// One timer per stream at no memory beyond three words in its slot: a wheel of intrusive lists.
///
/// Entries further away than one turn stay in their list and are passed over until their tick comes.
struct TimerWheel {
    static let tickNanoseconds: UInt64 = 100_000_000
    private static let size = 1024

    private var heads = [Int32](repeating: -1, count: size)
    private(set) var now: Tick = 0

    static func ticks(_ milliseconds: Int) -> Tick { Tick(max(1, (milliseconds + 99) / 100)) }

    /// Puts slot `index`, which is in no list, where it fires at `due`.
    mutating func insert(_ index: Int32, due: Tick, in slots: SlotTable) {
        let due = max(due, now + 1)
        let bucket = Int(due) % Self.size
        let slot = slots[index]
        slot.pointee.due = due
        slot.pointee.wheelPrevious = -1
        slot.pointee.wheelNext = heads[bucket]
        if heads[bucket] >= 0 { slots[heads[bucket]].pointee.wheelPrevious = index }
        heads[bucket] = index
    }

    /// Takes slot `index` out of its list; nothing happens when it is in none.
    mutating func remove(_ index: Int32, in slots: SlotTable) {
        let slot = slots[index]
        guard slot.pointee.due != 0 else { return }
        let previous = slot.pointee.wheelPrevious
        let next = slot.pointee.wheelNext
        if previous >= 0 {
            slots[previous].pointee.wheelNext = next
        } else {
            heads[Int(slot.pointee.due) % Self.size] = next
        }
        if next >= 0 { slots[next].pointee.wheelPrevious = previous }
        slot.pointee.due = 0
    }

    /// Whether slot `index` is in the list of its tick.
    func holds(_ index: Int32, in slots: SlotTable) -> Bool {
        guard slots[index].pointee.due != 0 else { return false }
        var entry = heads[Int(slots[index].pointee.due) % Self.size]
        while entry >= 0, entry != index { entry = slots[entry].pointee.wheelNext }
        return entry == index
    }

    /// Moves on by one tick and appends what is due to `fired`, taken out of the wheel.
    mutating func advance(in slots: SlotTable, fired: inout [Int32]) {
        now += 1
        var index = heads[Int(now) % Self.size]
        while index >= 0 {
            let next = slots[index].pointee.wheelNext
            if slots[index].pointee.due <= now {
                remove(index, in: slots)
                fired.append(index)
            }
            index = next
        }
    }
}
