import StalecastTemplate
import Testing

@Suite struct ConditionInputTests {
    /// The template of one parameter that uses these conditions.
    private func inputs(_ expressions: String..., unused: String = "true") throws -> [ConditionInput]? {
        let conditions = expressions.enumerated().map { "{\"name\":\"c\($0)\",\"expression\":\"\($1)\"}" }
        let values = expressions.indices.map { "\"c\($0)\":{\"value\":\"\($0)\"}" }
        let text = """
            {"conditions":[\((conditions + ["{\"name\":\"u\",\"expression\":\"\(unused)\"}"]).joined(separator: ","))],
            "parameters":{"p":{"defaultValue":{"value":"d"},"conditionalValues":{\(values.joined(separator: ","))}}}}
            """
        return CompiledTemplate(try Template.make(text)).inputs
    }

    @Test func whatConditionsReadIsNamedOnce() throws {
        let read = try inputs(
            "app.customSignal['city'].exactlyMatches(['york']) && device.country in ['GB']",
            "app.customSignal['city'].exactlyMatches(['hull']) && app.version.>=(['4.0'])")
        #expect(Set(try #require(read)) == [.attribute(.customSignal("city")), .country, .attribute(.appVersion)])
        #expect(read?.count == 3)
    }

    @Test func theIdAndTheTimeAreNoInputsThatFetchesShare() throws {
        #expect(try inputs("percent('s') <= 50") == nil)
        #expect(try inputs("dateTime < dateTime('2030-01-01T00:00:00')") == nil)
        #expect(try inputs("firebaseInstallationId in ['Abcdefghijk']") == nil)
    }

    @Test func aConditionThatNoParameterUsesIsNotRead() throws {
        #expect(try inputs("device.os == 'ios'", unused: "percent('s') <= 50") == [.appID, .platform])
    }
}
