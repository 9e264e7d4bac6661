import StalecastDaemon
import StalecastTestSupport
import Testing

/// Numbers in configuration files, variables and flags. A trap ends the process, and with it the tests.
@Suite struct BoundaryNumberTests {
    private static let units = ["", "ms", "s", "m", "h", "d", "B", "KiB", "MiB", "GiB", "TiB"]
    private static let variables = ConfigurationOption.all.compactMap(\.variable)

    /// All options at once have the number; what is legal for one says nothing of the others.
    @Test(arguments: boundaryNumbers) func everyOptionIsInRangeOrRefused(number: String) {
        // An empty variable is none.
        for unit in Self.units where number + unit != "" {
            let environment = Dictionary(uniqueKeysWithValues: Self.variables.map { ($0, number + unit) })
            #expect(!problems("", environment: environment).isEmpty)
        }
    }

    /// Covers the numbers in entries of lists, which no variable sets.
    @Test(arguments: boundaryNumbers) func theEntriesOfListsToo(number: String) {
        for unit in Self.units {
            let value = "\"\(number)\(unit)\""
            _ = problems(
                """
                projects: [{name: demo, number: \(value)}]
                webhooks: {receivers: [{name: a, url: "https://a.example", timeout: \(value), minInterval: \(value), \
                maxPerSecond: \(value)}]}
                sources: [{scope: demo/firebase, kind: http, url: "https://a.example", interval: \(value), \
                timeout: \(value), maxBytes: \(value), maxAge: \(value), quiet: \(value)}]
                """)
        }
    }
}
