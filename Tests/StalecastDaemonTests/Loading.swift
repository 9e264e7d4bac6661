import StalecastDaemon

/// The configuration of `text` alone; an expectation of the test fails if it is refused.
func load(_ text: String, environment: [String: String] = [:]) throws -> Configuration {
    try ConfigurationLoader.load(text: text, file: "test.yaml", environment: environment)
}

/// The problems of `text`, one line each, `test.yaml:3: …`; empty if there are none.
func problems(
    _ text: String, environment: [String: String] = [:], overrides: ConfigurationOverrides = ConfigurationOverrides()
) -> [String] {
    do {
        _ = try ConfigurationLoader.load(
            text: text, file: "test.yaml", environment: environment, overrides: overrides)
        return []
    } catch {
        return error.problems.map(\.description)
    }
}
