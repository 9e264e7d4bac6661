/// Limits of a template's size. Lengths are in characters, counted as Unicode code points (Google's AIP-210).
package struct TemplateLimits: Sendable, Hashable {
    /// Parameters in all, those in groups included.
    package var parameters = 3000
    package var conditions = 2000
    package var groups = 1000
    /// Longest name of a parameter.
    package var keyLength = 256
    package var conditionNameLength = 256
    package var groupNameLength = 256
    /// Longest description of a parameter or a group.
    package var descriptionLength = 256
    /// Longest `version.description`.
    package var versionDescriptionLength = 1024
    /// Length of all values of all parameters together.
    package var totalValueLength = 1_000_000
    /// Steps of the programs all regular expressions become; keeps a compiled template within some megabytes.
    package var patternSize = 200_000
    /// Bytes of one JSON Schema.
    package var schemaSize = 65_536
    /// Steps for reading all schemas and checking all values that they judge. Counted, not timed, so that a template is
    /// refused on every machine or on none. nil looks at no schema.
    package var schemaSteps: Int? = 1_000_000

    package init() {}

    /// Firebase's published limits.
    package static let firebase = TemplateLimits()

    /// Firebase's limits for a version that is current elsewhere, whatever its JSON Schemas say: they are not looked at.
    package static let withoutSchemas: TemplateLimits = {
        var limits = TemplateLimits()
        limits.schemaSteps = nil
        return limits
    }()
}
