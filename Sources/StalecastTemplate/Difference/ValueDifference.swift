import StalecastWire

/// Finds the differences inside two JSON values, as lines such as `paywall.price: 4.99 -> 3.99`.
enum ValueDifference {
    /// Nothing when they mean the same, though their texts differ, and when not both are objects or lists.
    static func list(from old: JSONValue, to new: JSONValue) -> [String] {
        var lines: [String] = []
        compare(old, new, at: "", &lines)
        return lines
    }

    private static func compare(_ old: JSONValue?, _ new: JSONValue?, at path: String, _ lines: inout [String]) {
        switch (old, new) {
        case (.object(let old)?, .object(let new)?):
            for name in old.keys + new.keys.filter({ old[$0] == nil }) {
                compare(old[name], new[name], at: path.isEmpty ? name : "\(path).\(name)", &lines)
            }
        case (.array(let old)?, .array(let new)?):
            for index in 0..<max(old.count, new.count) {
                let (before, after) = (index < old.count ? old[index] : nil, index < new.count ? new[index] : nil)
                compare(before, after, at: "\(path)[\(index)]", &lines)
            }
        case _ where old == new || path.isEmpty: return
        default:
            let (before, after) = (shown(old), shown(new))
            lines.append("\(path.shown): \(before) -> \(after)\(remark(before, after))")
        }
    }

    private static func shown(_ value: JSONValue?) -> String { value.map { $0.text().shown } ?? "(none)" }

    /// Remark for two texts that look the same once they are clipped.
    static func remark(_ before: String, _ after: String) -> String {
        before == after ? " (they differ in a part not shown)" : ""
    }
}
