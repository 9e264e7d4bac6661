extension Pattern {
    /// Set of characters (Unicode scalars) that a place in a pattern takes.
    struct ScalarSet: Sendable, Hashable {
        private(set) var ranges: [ClosedRange<UInt32>] = []
        /// Sets within the set, for example `\D` or `\p{Lu}`.
        private var parts: [Part] = []
        var isNegated = false
        /// Whether a letter stands for its other case too.
        var foldsCase = false
        /// The answers for ASCII, once ``prepared``.
        private var lowBits: UInt64 = 0
        private var highBits: UInt64 = 0

        private enum Part: Sendable, Hashable {
            case nested(Pattern.ScalarSet)
            /// A general category, by its one- or two-letter name.
            case category(String)
        }

        init(_ ranges: [ClosedRange<UInt32>] = [], isNegated: Bool = false) {
            self.ranges = ranges
            self.isNegated = isNegated
        }

        mutating func insert(_ range: ClosedRange<UInt32>) { ranges.append(range) }
        mutating func insert(_ set: Pattern.ScalarSet) { insert(.nested(set)) }
        mutating func insert(category: String) { insert(.category(category)) }

        /// Adds a part once. Some hundred different ones exist, whatever the length of the class.
        private mutating func insert(_ part: Part) { if !parts.contains(part) { parts.append(part) } }

        /// The set with the answers for ASCII worked out, each range looked at once; it does not change after that.
        var prepared: Pattern.ScalarSet {
            var listed = parts.reduce(into: Set<UInt32>()) { listed, part in
                listed.formUnion((0..<128).filter { Self.lists($0, part) })
            }
            for range in ranges where range.lowerBound < 128 {
                listed.formUnion(range.lowerBound...min(range.upperBound, 127))
            }
            var copy = self
            for value in UInt32(0)..<128 {
                // An ASCII letter folds to ASCII only.
                let isListed =
                    foldsCase ? Self.variants(of: value).contains { listed.contains($0) } : listed.contains(value)
                guard isListed != isNegated else { continue }
                if value < 64 { copy.lowBits |= 1 << UInt64(value) } else { copy.highBits |= 1 << UInt64(value - 64) }
            }
            return copy
        }

        /// Steps that asking for the scalar takes; only ASCII is answered from a table.
        func cost(of value: UInt32) -> Int {
            if value < 128 { return 1 }
            // Folding looks the scalar up in the tables of Unicode, which is slow.
            return (1 + ranges.count / 4 + parts.count * 8) * (foldsCase ? 40 : 1)
        }

        /// Whether the set, prepared, has the scalar.
        func contains(_ value: UInt32) -> Bool {
            if value < 64 { return lowBits >> UInt64(value) & 1 == 1 }
            if value < 128 { return highBits >> UInt64(value - 64) & 1 == 1 }
            return decides(value)
        }

        /// Whether a range takes the scalar; for sets that are nothing but ranges.
        func lists(ascii value: UInt32) -> Bool { ranges.contains { $0.contains(value) } }

        private func decides(_ value: UInt32) -> Bool {
            let isListed = foldsCase ? Self.variants(of: value).contains { lists($0) } : lists(value)
            return isListed != isNegated
        }

        private func lists(_ value: UInt32) -> Bool {
            ranges.contains { $0.contains(value) } || parts.contains { Self.lists(value, $0) }
        }

        private static func lists(_ value: UInt32, _ part: Part) -> Bool {
            switch part {
            case .nested(let set): set.decides(value)
            case .category(let name): category(of: value).hasPrefix(name)
            }
        }

        /// The scalar in its other cases, itself first.
        private static func variants(of value: UInt32) -> [UInt32] {
            let lower = lowercase(value)
            let upper = uppercase(value)
            // The last two go by way of the other case: `ſ` has the upper case `S`, whose lower case is `s`.
            return [value, lower, upper, lowercase(upper), uppercase(lower)]
        }

        private static func lowercase(_ value: UInt32) -> UInt32 {
            single(Unicode.Scalar(value)?.properties.lowercaseMapping, or: value)
        }

        private static func uppercase(_ value: UInt32) -> UInt32 {
            single(Unicode.Scalar(value)?.properties.uppercaseMapping, or: value)
        }

        /// Simple folding only: a character whose fold is two characters stays as it is.
        private static func single(_ mapping: String?, or value: UInt32) -> UInt32 {
            guard let scalars = mapping?.unicodeScalars, scalars.count == 1, let first = scalars.first else {
                return value
            }
            return first.value
        }
    }
}

extension Pattern.ScalarSet {
    static let digits = Pattern.ScalarSet([0x30...0x39])
    // RE2's `\s` lacks the vertical tab, which `[:space:]` has.
    static let blanks = Pattern.ScalarSet([0x09...0x0A, 0x0C...0x0D, 0x20...0x20])
    static let wordCharacters = Pattern.ScalarSet([0x30...0x39, 0x41...0x5A, 0x5F...0x5F, 0x61...0x7A])

    var negated: Pattern.ScalarSet {
        var copy = self
        copy.isNegated.toggle()
        return copy
    }

    /// The classes of `[[:name:]]`; nil for other names.
    static func posix(_ name: String) -> Pattern.ScalarSet? {
        let ranges: [ClosedRange<UInt32>]? =
            switch name {
            case "alnum": [0x30...0x39, 0x41...0x5A, 0x61...0x7A]
            case "alpha": [0x41...0x5A, 0x61...0x7A]
            case "ascii": [0x00...0x7F]
            case "blank": [0x09...0x09, 0x20...0x20]
            case "cntrl": [0x00...0x1F, 0x7F...0x7F]
            case "digit": [0x30...0x39]
            case "graph": [0x21...0x7E]
            case "lower": [0x61...0x7A]
            case "print": [0x20...0x7E]
            case "punct": [0x21...0x2F, 0x3A...0x40, 0x5B...0x60, 0x7B...0x7E]
            case "space": [0x09...0x0D, 0x20...0x20]
            case "upper": [0x41...0x5A]
            case "word": [0x30...0x39, 0x41...0x5A, 0x5F...0x5F, 0x61...0x7A]
            case "xdigit": [0x30...0x39, 0x41...0x46, 0x61...0x66]
            default: nil
            }
        return ranges.map { Pattern.ScalarSet($0) }
    }

    /// Names ``insert(category:)`` takes: those of the general categories, and of their groups.
    static let categories = Set(names.values + names.values.map { String($0.prefix(1)) })

    private static let names: [Unicode.GeneralCategory: String] = [
        .uppercaseLetter: "Lu", .lowercaseLetter: "Ll", .titlecaseLetter: "Lt", .modifierLetter: "Lm",
        .otherLetter: "Lo", .nonspacingMark: "Mn", .spacingMark: "Mc", .enclosingMark: "Me", .decimalNumber: "Nd",
        .letterNumber: "Nl", .otherNumber: "No", .connectorPunctuation: "Pc", .dashPunctuation: "Pd",
        .openPunctuation: "Ps", .closePunctuation: "Pe", .initialPunctuation: "Pi", .finalPunctuation: "Pf",
        .otherPunctuation: "Po", .mathSymbol: "Sm", .currencySymbol: "Sc", .modifierSymbol: "Sk", .otherSymbol: "So",
        .spaceSeparator: "Zs", .lineSeparator: "Zl", .paragraphSeparator: "Zp", .control: "Cc", .format: "Cf",
        .privateUse: "Co",
    ]

    /// Name of the scalar's category; empty for surrogates, and where Unicode has given the scalar no meaning.
    private static func category(of value: UInt32) -> String {
        Unicode.Scalar(value).flatMap { names[$0.properties.generalCategory] } ?? ""
    }
}
