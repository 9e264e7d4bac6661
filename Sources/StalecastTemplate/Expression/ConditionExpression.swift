package import StalecastWire

/// A condition's expression: a conjunction of tests, in Firebase's language. There is no `||`, no `!` and no grouping.
package struct ConditionExpression: Sendable, Hashable {
    /// Tests in the order of the text, at least one and at most ``maxTests``; all must be true.
    package let tests: [Test]
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
        /// Whether a text is one of these, or, negated, none of them.
        case text(TextElement, [String], isNegated: Bool = false)
        case value(Attribute, ValueTest)
        case set(SetElement, SetOperator, [String])
        /// `app.firstOpenTimestamp`; without a zone the moment is in GMT.
        case firstOpen(Comparison, LocalMoment)
        /// `dateTime`, the time of the fetch; without a zone the moment is in the device's zone.
        case dateTime(Comparison, LocalMoment)
        case percent(PercentTest)
    }

    /// Elements that are compared with whole texts; raw values are their names in the language.
    package enum TextElement: String, Sendable, Hashable {
        /// The Firebase app id of the request.
        case appID = "app.id"
        /// `ios`, `android` or `web`.
        case operatingSystem = "device.os"
        /// ISO 3166-1 alpha-2 codes as written; compare without regard to case.
        case country = "device.country"
        /// IETF tags as written.
        case language = "device.language"
        case installation = "app.firebaseInstallationId"
        /// Web only.
        case operatingSystemAndVersion = "app.operatingSystemAndVersion"
        /// Web only.
        case browserAndVersion = "app.browserAndVersion"
    }

    /// Elements that are sets of names; raw values are theirs in the language.
    package enum SetElement: String, Sendable, Hashable {
        case audiences = "app.audiences"
        case importedSegments = "app.importedSegments"
    }

    /// Elements that are read as text, number or version.
    package enum Attribute: Sendable, Hashable {
        /// `app.version`, what stores show.
        case appVersion
        case appBuild
        /// `app.userProperty['name']`: an Analytics user property.
        case userProperty(String)
        /// `app.customSignal['name']`: a signal the app sends.
        case customSignal(String)
    }

    package enum ValueTest: Sendable, Hashable {
        /// The value as a number; false where it is not one.
        case number(Comparison, NumericLiteral)
        /// The value as a version; of a signal with at most ``VersionLiteral/maxSignalSegments`` segments.
        case version(Comparison, VersionLiteral)
        case text(TextOperator, [String])
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
