package import StalecastWire

/// A condition's expression: a conjunction of tests, in Firebase's language. There is no `||`, no `!` and no grouping.
package struct ConditionExpression: Sendable, Hashable {
    /// Tests in the order of the text, at least one and at most ``maxTests``; all must be true.
    package let tests: [ConditionExpression.Test]
    /// Steps of the programs its regular expressions become.
    let patternSize: Int

    /// Firebase's limit of elements in one condition.
    package static let maxTests = 50
    /// Bytes of the text; a hundred values of the longest a custom signal can have fit, and a thousand app ids.
    static let maxLength = 65_536
    /// Largest ``patternSize``.
    static let maxPatternSize = 5000

    /// - Throws: ``ExpressionError`` with the place of the first thing that is wrong.
    package init(parsing text: String, kind: TemplateKind) throws(ExpressionError) {
        guard text.utf8.count <= Self.maxLength else {
            throw ExpressionError(offset: 0, reason: "an expression has at most \(Self.maxLength) bytes")
        }
        var parser = try ExpressionParser(text, kind: kind)
        tests = try parser.expression()
        patternSize = parser.patternSize
    }
}

extension ConditionExpression {
    /// One element of a condition. A test whose attribute is missing in the request is false, negative operators included.
    package enum Test: Sendable, Hashable {
        /// `true` (shown as "User exists" by the console) or `false`.
        case constant(Bool)
        /// `app.id`: the Firebase app id of the request.
        case appID(ConditionExpression.Membership)
        /// `device.os`: values are `ios`, `android`, `web`.
        case operatingSystem(ConditionExpression.Membership)
        /// `app.version`, what stores show.
        case appVersion(ConditionExpression.VersionTest)
        /// `app.build`.
        case appBuild(ConditionExpression.VersionTest)
        /// `app.userProperty['name']`: an Analytics user property.
        case userProperty(name: String, ConditionExpression.ValueTest)
        /// `app.customSignal['name']`: a signal the app sends.
        case customSignal(name: String, ConditionExpression.ValueTest)
        /// `version(app.customSignal['name'])`: at most ``VersionLiteral/maxSignalSegments`` segments.
        case customSignalVersion(name: String, ConditionExpression.Comparison, VersionLiteral)
        /// `app.audiences`.
        case audiences(ConditionExpression.SetOperator, [String])
        /// `app.importedSegments`.
        case importedSegments(ConditionExpression.SetOperator, [String])
        /// `device.country in […]`: ISO 3166-1 alpha-2 codes as written; compare without regard to case.
        case country([String])
        /// `device.language in […]`: IETF tags as written.
        case language([String])
        /// `app.firebaseInstallationId in […]`.
        case installation([String])
        /// `app.firstOpenTimestamp`; without a zone the moment is in GMT.
        case firstOpen(ConditionExpression.Comparison, LocalMoment)
        /// `dateTime`, the time of the fetch; without a zone the moment is in the device's zone.
        case dateTime(ConditionExpression.Comparison, LocalMoment)
        /// `percent`.
        case percent(ConditionExpression.PercentTest)
        /// `app.operatingSystemAndVersion`, web only.
        case operatingSystemAndVersion(ConditionExpression.Membership)
        /// `app.browserAndVersion`, web only.
        case browserAndVersion(ConditionExpression.Membership)
    }

    /// Whether a text is one of `values`, or, negated, none of them.
    package struct Membership: Sendable, Hashable {
        package var isNegated: Bool
        package var values: [String]

        package init(_ values: [String], isNegated: Bool = false) {
            self.values = values
            self.isNegated = isNegated
        }
    }

    /// A test of `app.version` or `app.build`.
    package enum VersionTest: Sendable, Hashable {
        case compare(ConditionExpression.Comparison, VersionLiteral)
        case text(ConditionExpression.TextOperator, [String])
    }

    /// A test of a user property or custom signal.
    package enum ValueTest: Sendable, Hashable {
        /// The value as a number; false where it is not one.
        case compare(ConditionExpression.Comparison, NumericLiteral)
        case text(ConditionExpression.TextOperator, [String])
    }

    /// Range of instances that a `percent` test takes in. Bounds are in millionths of a percent, 0 to 100,000,000.
    package struct PercentTest: Sendable, Hashable {
        /// 0 to 32 characters; instances keep their bucket per seed.
        package var seed: String
        package var range: Range

        package enum Range: Sendable, Hashable {
            /// bucket <= bound
            case atMost(UInt32)
            /// bucket > bound
            case above(UInt32)
            /// lower < bucket <= upper
            case between(UInt32, UInt32)
        }

        package init(seed: String = "", _ range: Range) {
            self.seed = seed
            self.range = range
        }
    }
}
