/// Status that a member reports of itself.
package struct EtcdStatus: Sendable {
    package var version = ""
    package var memberID: UInt64 = 0
    /// 0 while it knows none.
    package var leader: UInt64 = 0
    package var databaseBytes: Int64 = 0

    package init(_ bytes: [UInt8]) throws(ProtobufError) {
        try ProtobufReader.each(bytes[...]) { (field, value) throws(ProtobufError) in
            switch field {
            case 1:
                try ProtobufReader.each(value.slice) { field, value in
                    if field == 2 { memberID = UInt64(bitPattern: value.int64) }
                }
            case 2: version = value.text
            case 3: databaseBytes = value.int64
            case 4: leader = UInt64(bitPattern: value.int64)
            default: break
            }
        }
    }
}

extension EtcdStatus {
    /// Whether a cluster may stand on this member.
    package struct Suitability: Sendable, Hashable {
        package enum Word: String, Sendable, CaseIterable { case good, old, refused }

        package let word: Word
        /// A sentence for the operator; nil for a good one.
        package let finding: String?
    }

    package var suitability: Suitability {
        // kine and its like name no member, and older ones no version.
        guard memberID != 0, let number = Self.numbers(version) else {
            return Suitability(
                word: .refused,
                finding: "this is no etcd but something that speaks its protocol; transactions as ours need etcd")
        }
        if number.lexicographicallyPrecedes([3, 4]) {
            return Suitability(
                word: .refused, finding: "etcd \(version) is too old: 3.4 at least, better 3.6.14 or 3.7.1")
        }
        if number.lexicographicallyPrecedes([3, 6, 9]) {
            return Suitability(
                word: .old,
                finding: "etcd \(version) may answer with an old state after it stood still; better 3.6.14 or 3.7.1")
        }
        return Suitability(word: .good, finding: nil)
    }

    /// Numbers of `3.6.9` or `3.6.0-rc.1`; nil for anything else.
    private static func numbers(_ version: String) -> [Int]? {
        let parts = version.prefix { $0 != "-" && $0 != "+" }.split(separator: ".", omittingEmptySubsequences: false)
        let numbers = parts.compactMap { Int($0) }
        return parts.count == 3 && numbers.count == 3 ? numbers : nil
    }
}
