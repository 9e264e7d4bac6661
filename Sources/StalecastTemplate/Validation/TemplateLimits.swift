/// How large a template may be. Lengths are in characters, counted as Unicode code points (Google's AIP-210).
package struct TemplateLimits: Sendable, Hashable {
    /// Parameters in all, those in groups included.
    package var parameters = 3000
    package var conditions = 2000
    package var groups = 1000
    /// Of a parameter's name.
    package var keyLength = 256
    package var conditionNameLength = 256
    package var groupNameLength = 256
    /// Of a parameter's or a group's description.
    package var descriptionLength = 256
    /// Of `version.description`.
    package var versionDescriptionLength = 1024
    /// Of all values of all parameters together.
    package var totalValueLength = 1_000_000
    /// Steps of the programs all regular expressions become; keeps a compiled template within some megabytes.
    package var patternSize = 200_000

    package init() {}

    /// Firebase's published limits.
    package static let firebase = TemplateLimits()
}
