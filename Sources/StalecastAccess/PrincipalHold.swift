/// A stream's or a ticket's claim on its principal. While a hold lives, the table that knows the principal does not
/// forget it, however many newer credentials come, so that a later check of the stream always finds its principal.
package final class PrincipalHold: Sendable, Hashable {
    private let number: Int32
    private let release: @Sendable () -> Void

    init(_ number: Int32, release: @escaping @Sendable () -> Void) {
        self.number = number
        self.release = release
    }

    deinit { release() }

    package static func == (a: PrincipalHold, b: PrincipalHold) -> Bool { a.number == b.number }
    package func hash(into hasher: inout Hasher) { hasher.combine(number) }
}

/// Table that knows the principal of a number. A stream's slot has 32 bits for it, so each table has a range of them:
/// only this type says which.
enum PrincipalTable {
    /// Keys and, with 0, anonymous callers.
    case keys
    case tokens, certificates, hook

    private static let firstToken: Int32 = 1 << 24
    private static let firstOfHook: Int32 = -(1 << 30)

    init(of number: Int32) {
        switch number {
        case Self.firstToken...: self = .tokens
        case ...Self.firstOfHook: self = .hook
        case ..<0: self = .certificates
        default: self = .keys
        }
    }

    static func tokens(capacity: Int) -> PrincipalNumbers { .init(from: firstToken, to: .max, capacity: capacity) }
    static func certificates(capacity: Int) -> PrincipalNumbers {
        .init(from: -1, to: firstOfHook, capacity: capacity)
    }
    static func hook(capacity: Int) -> PrincipalNumbers { .init(from: firstOfHook, to: .min, capacity: capacity) }
}

/// Numbers that a table of principals hands out one after the other. The oldest is forgotten when more than `capacity`
/// are there, unless it is held; a held one is forgotten after its last hold.
struct PrincipalNumbers: Sendable {
    /// Entries that a table keeps besides those that are held.
    static let capacity = 65_536

    private let first: Int32
    private let last: Int32
    /// 1 counts up, -1 counts down.
    private let step: Int32
    private let capacity: Int32
    private var next: Int32
    private var oldest: Int32
    private var holds: [Int32: Int] = [:]

    init(from first: Int32, to last: Int32, capacity: Int) {
        (self.first, self.last, next, oldest) = (first, last, first, first)
        step = last > first ? 1 : -1
        self.capacity = Int32(clamping: capacity)
    }

    /// No number is left. The table is emptied then, and ``reset()`` called: streams live for minutes, so none has a
    /// number of a thousand million credentials ago.
    var isUsedUp: Bool { next == last }

    mutating func reset() { (next, oldest, holds) = (first, first, [:]) }

    /// - Returns: a new number, and the one that is forgotten for it.
    mutating func take() -> (number: Int32, forgotten: Int32?) {
        let number = next
        next += step
        guard (next - oldest) * step > capacity else { return (number, nil) }
        let old = oldest
        oldest += step
        return (number, holds[old] == nil ? old : nil)
    }

    mutating func hold(_ number: Int32) { holds[number, default: 0] += 1 }

    /// - Returns: whether the number is forgotten now, because newer ones have taken its place.
    mutating func release(_ number: Int32) -> Bool {
        guard let count = holds[number] else { return false }
        holds[number] = count > 1 ? count - 1 : nil
        return count == 1 && (number - oldest) * step < 0
    }
}
