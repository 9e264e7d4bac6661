/// Everything about an instance that decides what it gets from one version of a template: which conditions are true,
/// and what was drawn for it where rollouts and experiments apply. Instances with equal outcomes get equal answers.
/// Conditions no parameter uses, and draws that make no difference, do not count.
package struct ConditionOutcome: Sendable, Hashable {
    /// One bit per condition, then 16 bits per managed value.
    private var words: [UInt64]
    private let conditionWords: Int
    /// Whether lots are drawn among instances, and this one did not say who it is.
    package internal(set) var isAnonymous = false

    init(conditions: Int, managedValues: Int) {
        conditionWords = (conditions + 63) / 64
        words = Array(repeating: 0, count: conditionWords + (managedValues + 3) / 4)
    }

    /// Bytes that it takes in memory, about.
    package var byteCount: Int { MemoryLayout<Self>.stride + 32 + words.count * 8 }

    /// Whether the condition at this place of the template is true.
    func isTrue(_ condition: Int) -> Bool { words[condition / 64] >> UInt64(condition % 64) & 1 == 1 }

    mutating func setTrue(_ condition: Int) { words[condition / 64] |= 1 << UInt64(condition % 64) }

    /// Choice that was drawn for the managed value at this place; 0 when none was.
    func choice(_ place: Int) -> ManagedValue.Choice {
        ManagedValue.Choice(truncatingIfNeeded: words[conditionWords + place / 4] >> UInt64(place % 4 * 16))
    }

    /// Only once per place.
    mutating func setChoice(_ place: Int, _ choice: ManagedValue.Choice) {
        words[conditionWords + place / 4] |= UInt64(choice) << UInt64(place % 4 * 16)
    }
}
