/// The steps an evaluation may take. Counted, not timed, so that the same request has the same outcome on every
/// machine; a step takes some nanoseconds.
struct EvaluationBudget: Sendable {
    private(set) var stepsLeft: Int

    /// Keeps an evaluation below 10 ms on slow machines.
    static let defaultSteps = 250_000

    init(steps: Int = Self.defaultSteps) { stepsLeft = steps }

    var isExhausted: Bool { stepsLeft <= 0 }

    mutating func spend(_ steps: Int) { stepsLeft -= steps }

    /// Takes the steps of work that is to come. Without as many the budget is used up, and the work must not be done.
    mutating func affords(_ steps: Int) -> Bool {
        stepsLeft = steps < stepsLeft ? stepsLeft - steps : min(stepsLeft, 0)
        return !isExhausted
    }
}

extension Pattern {
    /// Runs patterns over texts; keeps its memory from one run to the next.
    struct Matcher {
        /// The generation in which an instruction was last put on a list.
        private var marks: [UInt32] = []
        private var generation: UInt32 = 0
        private var current: [UInt32] = []
        private var next: [UInt32] = []
        private var pending: [UInt32] = []

        /// Whether `pattern` is found anywhere in `text` (its scalars); nil when the budget ran out first.
        mutating func finds(_ pattern: Pattern, in text: [UInt32], budget: inout EvaluationBudget) -> Bool? {
            prepare(for: pattern)
            for position in 0...text.count {
                if budget.isExhausted { return nil }
                // A match may begin at any position, so the start of the program joins the list at each.
                if follow(0, pattern, text, position, &budget) { return true }
                guard position < text.count else { break }
                // A new generation makes all marks void without clearing them.
                swap(&current, &next)
                next.removeAll(keepingCapacity: true)
                generation += 1
                if step(pattern, text, position, &budget) { return true }
            }
            return false
        }

        private mutating func prepare(for pattern: Pattern) {
            // A run has no more generations than its budget has steps, a million at most: none overflows.
            if marks.count < pattern.program.count || generation > .max - 1_000_000 {
                marks = Array(repeating: 0, count: max(marks.count, pattern.program.count))
                generation = 0
            }
            generation += 1
            current.removeAll(keepingCapacity: true)
            next.removeAll(keepingCapacity: true)
        }

        /// Takes the scalar at `position` on all ways; true when one of them arrives.
        private mutating func step(
            _ pattern: Pattern, _ text: [UInt32], _ position: Int, _ budget: inout EvaluationBudget
        ) -> Bool {
            let scalar = text[position]
            for place in current {
                let instruction = pattern.program[Int(place)]
                if takes(instruction, scalar, pattern, &budget),
                    follow(place + 1, pattern, text, position + 1, &budget)
                {
                    return true
                }
                // `finds` asks the budget before the next position, so it never takes this end for no match.
                if budget.isExhausted { break }
            }
            return false
        }

        private func takes(
            _ instruction: Pattern.Instruction, _ scalar: UInt32, _ pattern: Pattern, _ budget: inout EvaluationBudget
        ) -> Bool {
            if instruction.kind == .scalar {
                budget.spend(1)
                return instruction.operand == scalar
            }
            let cost = pattern.sets[Int(instruction.operand)].cost(of: scalar)
            budget.spend(cost)
            return pattern.sets[Int(instruction.operand)].contains(scalar)
        }

        /// Puts everything that can be reached from `start` without taking a scalar on the list; true at the match.
        private mutating func follow(
            _ start: UInt32, _ pattern: Pattern, _ text: [UInt32], _ position: Int, _ budget: inout EvaluationBudget
        ) -> Bool {
            pending.append(start)
            while let place = pending.popLast() {
                // Ends loops of parts that take nothing, such as `(a*)*`, and keeps the work linear.
                if marks[Int(place)] == generation { continue }
                marks[Int(place)] = generation
                budget.spend(1)
                let instruction = pattern.program[Int(place)]
                switch instruction.kind {
                case .scalar, .set: next.append(place)
                case .jump: pending.append(instruction.operand)
                case .split:
                    pending.append(instruction.other)
                    pending.append(instruction.operand)
                case .assertion: if holds(instruction.operand, text, position) { pending.append(place + 1) }
                case .match:
                    pending.removeAll(keepingCapacity: true)
                    return true
                }
            }
            return false
        }

        private func holds(_ assertion: UInt32, _ text: [UInt32], _ position: Int) -> Bool {
            switch Pattern.Assertion(rawValue: UInt8(assertion)) {
            case .textStart?: position == 0
            case .textEnd?: position == text.count
            case .lineStart?: position == 0 || text[position - 1] == 0x0A
            case .lineEnd?: position == text.count || text[position] == 0x0A
            case .wordBoundary?: isWordBoundary(text, position)
            case .noWordBoundary?: !isWordBoundary(text, position)
            case nil: false
            }
        }

        private func isWordBoundary(_ text: [UInt32], _ position: Int) -> Bool {
            let isWord = { (index: Int) in
                text.indices.contains(index) && Pattern.ScalarSet.wordCharacters.lists(ascii: text[index])
            }
            return isWord(position - 1) != isWord(position)
        }
    }
}
