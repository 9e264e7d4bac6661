import ArgumentParser
import Foundation

/// Makes figures per delivery from four profiles: two counts of subscribers by two counts of announcements.
struct Figures: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "figures",
        abstract: "Prints what a delivery costs, from profiles named PREFIX-SUBSCRIBERS-ANNOUNCEMENTS.")

    @Argument(help: "Path of the profiles before -SUBSCRIBERS-ANNOUNCEMENTS.")
    var prefix: String

    @Option(parsing: .upToNextOption, help: "Two counts of subscribers.")
    var subscribers: [Int]

    @Option(parsing: .upToNextOption, help: "Two counts of announcements.")
    var announcements: [Int]

    @Option(help: "Said before each figure's name.")
    var label = ""

    @Option(help: "Write the figures to this file as JSON, beside those already in it.")
    var json: String?

    @Option(help: "Compare with the figures in this file.")
    var compare: String?

    func validate() throws {
        guard subscribers.count == 2, subscribers[0] < subscribers[1], announcements.count == 2,
            announcements[0] < announcements[1]
        else { throw ValidationError("give two rising counts each for --subscribers and --announcements") }
    }

    func run() throws {
        let runs = try subscribers.map { count in
            let profiles = try announcements.map { try CallgrindProfile(prefix: "\(prefix)-\(count)-\($0)") }
            return RunCosts(subscribers: count, announcements: announcements, profiles: profiles)
        }
        let figures = CostFigures(label: label, few: runs[0], many: runs[1])
        let earlier = try compare.map { try CostFigures.read($0) } ?? [:]
        for (name, value) in figures.named { print(Self.line(name, value, earlier[name])) }
        if let json { try figures.write(to: json) }
    }

    private static func line(_ name: String, _ value: Double, _ earlier: Double?) -> String {
        // Adding nothing turns a minus zero into zero.
        let figure = String(format: "%10.2f", (value * 100).rounded() / 100 + 0)
        guard let earlier else { return "\(figure)  \(name)" }
        let ratio = earlier == 0 ? "" : String(format: ", ratio %.3f", value / earlier)
        return "\(figure)  \(name) (was \(String(format: "%.2f", earlier))\(ratio))"
    }
}
