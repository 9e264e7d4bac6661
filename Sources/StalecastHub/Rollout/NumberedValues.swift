/// Values that many clients share, each once, with a number that is short enough to be kept for every client. Beyond
/// 4,096 there is no room for a new one until ``keep(_:)`` lets go of those that no client has any more.
struct NumberedValues<Value: Hashable> {
    private(set) var values: [Value]
    private var numbers: [Value: UInt16]

    private static var room: Int { 4096 }

    /// - Parameter first: number 0, which is never let go.
    init(_ first: Value) {
        values = [first]
        numbers = [first: 0]
    }

    subscript(_ number: UInt16) -> Value { values[Int(number)] }

    /// nil: there is no room for another value.
    mutating func number(of value: Value) -> UInt16? {
        if let number = numbers[value] { return number }
        guard values.count < Self.room else { return nil }
        let number = UInt16(values.count)
        numbers[value] = number
        values.append(value)
        return number
    }

    /// Lets go of all other values.
    ///
    /// - Returns: the new number of each old one; 0 for those that are gone.
    mutating func keep(_ used: Set<UInt16>) -> [UInt16] {
        var kept = NumberedValues(values[0])
        let moved = values.indices.map { old in
            used.contains(UInt16(old)) ? kept.number(of: values[old]) ?? 0 : 0
        }
        self = kept
        return moved
    }
}
