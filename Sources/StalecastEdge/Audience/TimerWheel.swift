/// Ticks since the shard started; a tick is ``TimerWheel/tickNanoseconds`` long.
package typealias Tick = UInt32

/// One timer per stream at no memory beyond three words in its slot: a wheel of intrusive lists.
///
/// Entries further away than one turn stay in their list and are passed over until their tick comes.
struct TimerWheel {
    struct Entry {
        var next: Int32 = -1
        var previous: Int32 = -1
        /// Time when the wheel fires; 0 is not in the wheel.
        var due: Tick = 0
    }

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
        slot.pointee.timer = Entry(next: heads[bucket], due: due)
        if heads[bucket] >= 0 { slots[heads[bucket]].pointee.timer.previous = index }
        heads[bucket] = index
    }

    /// Takes slot `index` out of its list; nothing happens when it is in none.
    mutating func remove(_ index: Int32, in slots: SlotTable) {
        let slot = slots[index]
        guard slot.pointee.timer.due != 0 else { return }
        let (previous, next) = (slot.pointee.timer.previous, slot.pointee.timer.next)
        if previous >= 0 {
            slots[previous].pointee.timer.next = next
        } else {
            heads[Int(slot.pointee.timer.due) % Self.size] = next
        }
        if next >= 0 { slots[next].pointee.timer.previous = previous }
        slot.pointee.timer.due = 0
    }

    /// Whether slot `index` is in the list of its tick.
    func holds(_ index: Int32, in slots: SlotTable) -> Bool {
        guard slots[index].pointee.timer.due != 0 else { return false }
        var entry = heads[Int(slots[index].pointee.timer.due) % Self.size]
        while entry >= 0, entry != index { entry = slots[entry].pointee.timer.next }
        return entry == index
    }

    /// Moves on by one tick and appends what is due to `fired`, taken out of the wheel.
    mutating func advance(in slots: SlotTable, fired: inout [Int32]) {
        now += 1
        var index = heads[Int(now) % Self.size]
        while index >= 0 {
            let next = slots[index].pointee.timer.next
            if slots[index].pointee.timer.due <= now {
                remove(index, in: slots)
                fired.append(index)
            }
            index = next
        }
    }
}
