import StalecastTemplate
import StalecastWire

/// An ordinary body of a fetch, or of a request for flags, read once and in place: JSON as SDKs write it, or what iOS's
/// prints by hand, with ASCII texts, and no known member twice. ``LenientJSON`` reads an accepted body alike, and all
/// other bodies.
///
/// It must not outlive the bytes that it points to.
package struct FetchScan {
    private let bytes: UnsafeBufferPointer<UInt8>
    private var index = 0
    private let isOfFlags: Bool
    private var spans: InlineArray<16, Span> = .init(repeating: Span())
    private var seen: UInt32 = 0
    private var entries: [Entry] = []

    /// A value as it is spelled: a text without its quotes, a number or a word. Empty is absent or null.
    private struct Span {
        var start: Int32 = 0
        var end: Int32 = 0
        var isEscaped = false
        var isNull = true
    }

    private struct Entry {
        let field: FetchField
        let name: Span
        let value: Span
    }

    private static let maxMembers = 64

    /// nil for what is not ordinary.
    ///
    /// - Parameter isOfFlags: the members are those of the body's `context`, and there is nothing beside it.
    package init?(_ bytes: UnsafeBufferPointer<UInt8>, isOfFlags: Bool = false) {
        guard bytes.count < UInt16.max else { return nil }
        self.bytes = bytes
        self.isOfFlags = isOfFlags
        guard isOfFlags ? readContext() : readMembers() else { return nil }
        skipBlanks()
        guard index == bytes.count else { return nil }
    }

    // MARK: Reading

    private mutating func readContext() -> Bool {
        skipBlanks()
        guard skip(0x7B) else { return false }
        skipBlanks()
        guard let name = quoted(), equal(name, "context"), colon(), readMembers() else { return false }
        skipBlanks()
        return skip(0x7D)
    }

    private mutating func readMembers() -> Bool {
        skipBlanks()
        guard skip(0x7B) else { return false }
        var count = 0
        repeat {
            count += 1
            skipBlanks()
            if isOfFlags, count == 1, skip(0x7D) { return true }
            guard count <= Self.maxMembers, let name = name(), !name.isEscaped, colon(), readMember(name) else {
                return false
            }
            skipBlanks()
        } while skip(0x2C)
        return skip(0x7D)
    }

    private mutating func readMember(_ name: Span) -> Bool {
        let names = isOfFlags ? FetchNames.flags : FetchNames.fetch
        guard let field = names.field(named: slice(name)) else {
            guard let value = scalar() else { return false }
            if isOfFlags { entries.append(Entry(field: .customSignals, name: name, value: value)) }
            return true
        }
        guard seen & 1 << field.rawValue == 0 else { return false }
        seen |= 1 << field.rawValue
        if isOfFlags, field == .instanceID, !startsText { return false }
        if field.isMap, index < bytes.count, bytes[index] == 0x7B { return readMap(field) }
        guard let value = scalar(), !field.isMap || value.isNull else { return false }
        spans[field.rawValue] = value
        return true
    }

    private mutating func readMap(_ field: FetchField) -> Bool {
        index += 1
        skipBlanks()
        if skip(0x7D) { return true }
        let most = entries.count + FetchRequest.maxAttributes
        repeat {
            skipBlanks()
            guard entries.count < most, let name = quoted(), !name.isEscaped, colon(), let value = scalar() else {
                return false
            }
            // One allocation is enough for most.
            if entries.isEmpty { entries.reserveCapacity(8) }
            entries.append(Entry(field: field, name: name, value: value))
            skipBlanks()
        } while skip(0x2C)
        return skip(0x7D)
    }

    /// A text or null is next. A targeting key is nothing else.
    private var startsText: Bool { index < bytes.count && (bytes[index] == 0x22 || bytes[index] == UInt8(ascii: "n")) }

    private mutating func colon() -> Bool {
        skipBlanks()
        guard skip(0x3A) else { return false }
        skipBlanks()
        return true
    }

    private mutating func scalar() -> Span? {
        guard index < bytes.count else { return nil }
        switch bytes[index] {
        case 0x22: return quoted()
        case UInt8(ascii: "'"): return isOfFlags ? nil : unescaped()
        case UInt8(ascii: "t"): return word("true")
        case UInt8(ascii: "f"): return word("false")
        case UInt8(ascii: "n"): return word("null").map { _ in Span() }
        case UInt8(ascii: "-"), 0x30...0x39: return number()
        default: return nil
        }
    }

    /// A text in double quotes; only escapes of one letter.
    private mutating func quoted() -> Span? {
        guard skip(0x22) else { return nil }
        var span = Span(start: Int32(index), isNull: false)
        while let eight = EightBytes(bytes, at: index), eight.arePlainText { index += 8 }
        while index < bytes.count {
            let byte = bytes[index]
            index += 1
            // Printable ASCII but for the quote and the backslash, which are rare.
            if byte &- 0x20 < 0x5F, byte != 0x22, byte != 0x5C { continue }
            if byte == 0x22 {
                span.end = Int32(index - 1)
                return span
            }
            guard byte == 0x5C, index < bytes.count, Self.unescaped(bytes[index]) != nil else { return nil }
            span.isEscaped = true
            index += 1
        }
        return nil
    }

    /// A member's name, which iOS does not quote.
    private mutating func name() -> Span? {
        if isOfFlags || index < bytes.count && bytes[index] == 0x22 { return quoted() }
        let start = index
        while index < bytes.count, bytes[index].isASCIIAlphanumeric || bytes[index] == UInt8(ascii: "_") { index += 1 }
        return index > start ? Span(start: Int32(start), end: Int32(index), isNull: false) : nil
    }

    /// A text in single quotes, in which nothing is escaped: it ends at a quote that a comma or the end of the object
    /// follows. With a backslash it would be spelled as another text is in double quotes.
    private mutating func unescaped() -> Span? {
        index += 1
        let start = index
        while index < bytes.count {
            let byte = bytes[index]
            index += 1
            guard byte &- 0x20 < 0x5F, byte != 0x5C else { return nil }
            if byte != UInt8(ascii: "'") { continue }
            let end = index - 1
            skipBlanks()
            if index < bytes.count, bytes[index] == 0x2C || bytes[index] == 0x7D {
                return Span(start: Int32(start), end: Int32(end), isNull: false)
            }
            index = end + 1
        }
        return nil
    }

    private static func unescaped(_ letter: UInt8) -> UInt8? {
        switch letter {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): letter
        case UInt8(ascii: "b"): 0x08
        case UInt8(ascii: "f"): 0x0C
        case UInt8(ascii: "n"): 0x0A
        case UInt8(ascii: "r"): 0x0D
        case UInt8(ascii: "t"): 0x09
        default: nil
        }
    }

    private mutating func word(_ word: StaticString) -> Span? {
        let start = index
        for offset in 0..<word.utf8CodeUnitCount {
            guard index < bytes.count, bytes[index] == word.utf8Start[offset] else { return nil }
            index += 1
        }
        return ended(from: start)
    }

    private mutating func number() -> Span? {
        let start = index
        while index < bytes.count {
            switch bytes[index] {
            case 0x30...0x39, UInt8(ascii: "-"), UInt8(ascii: "+"), UInt8(ascii: "."), UInt8(ascii: "e"),
                UInt8(ascii: "E"):
                index += 1
            default: return ended(from: start)
            }
        }
        return nil
    }

    /// nil where a letter follows that would be part of it.
    private func ended(from start: Int) -> Span? {
        guard index < bytes.count else { return nil }
        switch bytes[index] {
        case 0x20, 0x09, 0x0A, 0x0D, 0x2C, 0x7D: return Span(start: Int32(start), end: Int32(index), isNull: false)
        default: return nil
        }
    }

    private mutating func skip(_ byte: UInt8) -> Bool {
        guard index < bytes.count, bytes[index] == byte else { return false }
        index += 1
        return true
    }

    private mutating func skipBlanks() {
        while index < bytes.count {
            switch bytes[index] {
            case 0x20, 0x0A, 0x0D, 0x09: index += 1
            default: return
            }
        }
    }

    // MARK: Names

    private func equal(_ span: Span, _ text: StaticString) -> Bool {
        guard Int(span.end - span.start) == text.utf8CodeUnitCount else { return false }
        for offset in 0..<text.utf8CodeUnitCount where bytes[Int(span.start) + offset] != text.utf8Start[offset] {
            return false
        }
        return true
    }

    private func slice(_ span: Span) -> UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(rebasing: bytes[Int(span.start)..<Int(span.end)])
    }

    private func string(_ span: Span) -> String {
        guard span.isEscaped else { return String(decoding: slice(span), as: UTF8.self) }
        var text: [UInt8] = []
        var isEscape = false
        for byte in slice(span) {
            if isEscape {
                text.append(Self.unescaped(byte) ?? byte)
                isEscape = false
            } else if byte == 0x5C {
                isEscape = true
            } else {
                text.append(byte)
            }
        }
        return String(decoding: text, as: UTF8.self)
    }
}

// MARK: What it says

extension FetchScan: FetchMembers {
    package func has(_ field: FetchField) -> Bool {
        let span = spans[field.rawValue]
        return span.end > span.start && !equal(span, FetchField.printedNil)
    }

    package func text(_ field: FetchField) -> String? { has(field) ? string(spans[field.rawValue]) : nil }

    package func texts(_ field: FetchField) -> [String: String] {
        var texts: [String: String] = [:]
        // The last entry of a name counts, also when it is null.
        for entry in entries where entry.field == field {
            texts[string(entry.name)] = entry.value.isNull ? nil : string(entry.value)
        }
        return texts
    }

    /// Appends how each of `inputs` is spelled, with its length: bodies that make one key say the same of all of them.
    ///
    /// - Parameter most: bytes that a key may have.
    /// - Returns: false where it would have more.
    func appendKey(of inputs: [ConditionInput], most: Int, to key: inout [UInt8]) -> Bool {
        for input in inputs {
            guard let span = span(of: input) else {
                // Marks an absent value by a length that no text has, because longer bodies are not scanned.
                key.append(contentsOf: [0xFF, 0xFF])
                continue
            }
            let count = Int(span.end - span.start)
            guard key.count + 2 + count <= most else { return false }
            key.append(UInt8(truncatingIfNeeded: count >> 8))
            key.append(UInt8(truncatingIfNeeded: count))
            key.append(contentsOf: slice(span))
        }
        return key.count <= most
    }

    private func span(of input: ConditionInput) -> Span? {
        switch input {
        case .appID: said(.appID)
        case .platform: said(.platform)
        case .country: said(.country)
        case .language: said(.language)
        case .firstOpen: said(.firstOpen)
        case .attribute(.appVersion): said(.appVersion)
        case .attribute(.appBuild): said(.appBuild)
        case .attribute(.userProperty(let name)): entry(.userProperties, name)
        case .attribute(.customSignal(let name)): entry(.customSignals, name)
        }
    }

    private func said(_ field: FetchField) -> Span? { has(field) ? spans[field.rawValue] : nil }

    private func entry(_ field: FetchField, _ name: String) -> Span? {
        var found: Span?
        for entry in entries where entry.field == field {
            let spelled = slice(entry.name)
            if spelled.count == name.utf8.count, spelled.elementsEqual(name.utf8) { found = entry.value }
        }
        return found?.isNull == true ? nil : found
    }
}
