import Foundation

/// Costs of the engine's thread in the two runs with one count of subscribers.
struct RunCosts {
    let subscribers: Int
    /// Announcements in either run, the smaller first.
    let announcements: [Int]
    let profiles: [CallgrindProfile]

    /// One announcement: the difference of the runs, so that start, connects and end drop out.
    func perAnnouncement(_ count: KeyPath<CallgrindProfile, Int>) -> Double {
        Double(profiles[1][keyPath: count] - profiles[0][keyPath: count]) / Double(announcements[1] - announcements[0])
    }

    /// Cost of a run before its first announcement and after its last.
    func rest(_ count: KeyPath<CallgrindProfile, Int>) -> Double {
        Double(profiles[0][keyPath: count]) - perAnnouncement(count) * Double(announcements[0])
    }
}

/// Costs in three parts: of each delivery, of an announcement whatever the number of its deliveries, and of a stream
/// from accept to close.
struct CostFigures {
    /// Figures in the order in which they are shown.
    let named: [(name: String, value: Double)]

    /// - Parameters:
    ///   - label: put before each name, with a space, unless empty.
    ///   - few: the runs with fewer subscribers than `many`.
    init(label: String, few: RunCosts, many: RunCosts) {
        let more = Double(many.subscribers - few.subscribers)
        let start = label.isEmpty ? "" : label + " "
        func split(_ count: KeyPath<CallgrindProfile, Int>, _ unit: String) -> [(name: String, value: Double)] {
            let each = (many.perAnnouncement(count) - few.perAnnouncement(count)) / more
            return [
                ("\(start)\(unit)/delivery", each),
                ("\(start)\(unit)/announcement", few.perAnnouncement(count) - each * Double(few.subscribers)),
                ("\(start)\(unit)/stream", (many.rest(count) - few.rest(count)) / more),
            ]
        }
        named = split(\.instructions, "instructions") + split(\.allocations, "allocations")
    }

    /// The figures in a file this made earlier.
    static func read(_ path: String) throws -> [String: Double] {
        try JSONDecoder().decode([String: Double].self, from: Data(contentsOf: URL(fileURLWithPath: path)))
    }

    /// Puts the figures into a file; others that are in it stay.
    func write(to path: String) throws {
        var all = FileManager.default.fileExists(atPath: path) ? try Self.read(path) : [:]
        for (name, value) in named { all[name] = (value * 100).rounded() / 100 }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        try (encoder.encode(all) + Data("\n".utf8)).write(to: URL(fileURLWithPath: path))
    }
}
