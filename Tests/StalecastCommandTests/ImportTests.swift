import StalecastTemplate
import StalecastWire
import Testing
import stalecast

@Suite struct ImportTests {
    private static let mark = ImportMark(project: "shop", namespace: .firebase)

    private static func origin(_ numbers: ClosedRange<Int>) throws -> [VersionMetadata] {
        let time = try #require(Timestamp("2026-08-20T14:05:09Z"))
        return try numbers.map {
            VersionMetadata(number: try #require(VersionNumber(exactly: $0)), updateTime: time)
        }
    }

    /// Versions here, newest first, each with its description.
    private static func here(_ descriptions: String...) -> [JSONValue] {
        descriptions.enumerated().map { index, text in
            ["versionNumber": .string(String(descriptions.count - index)), "description": .string(text)]
        }
    }

    @Test func aDescriptionSaysWhatTheOriginSaysAndIsRecognisedLater() throws {
        let version = VersionMetadata(
            number: 42, updateTime: try #require(Timestamp("2026-08-20T14:05:09Z")),
            updateUser: UpdateUser(name: "Ann", email: "ann@example.test"), description: "summer [sale]",
            updateOrigin: .console, updateType: .rollback, rollbackSource: 3)
        let text = Self.mark.description(of: version)
        #expect(text.hasPrefix("[firebase shop/firebase 42] 2026-08-20T14:05:09"))
        #expect(text.hasSuffix(", CONSOLE, Ann <ann@example.test>, rollback to 3: summer [sale]"))
        #expect(Self.mark.number(in: text) == 42)
        var long = version
        long.description = String(repeating: "é", count: 2000)
        #expect(Self.mark.description(of: long).unicodeScalars.count == 1024)
    }

    @Test(arguments: [
        "", "[firebase shop/firebase 42", "[firebase shop/firebase x] ", "[firebase shop2/firebase 42] ", "42",
    ])
    func anotherDescriptionIsNoImport(text: String) {
        #expect(Self.mark.number(in: text) == nil)
    }

    @Test func theFirstImportTakesEverythingOldestFirst() throws {
        let plan = ImportPlan(origin: try Self.origin(3...5), here: [], mark: Self.mark)
        #expect(plan.missing.map(\.number) == [3, 4, 5])
        #expect(plan.others.isEmpty && plan.newest?.number == 5 && plan.found == 3)
    }

    @Test func theNextImportTakesWhatIsNew() throws {
        let here = Self.here("[firebase shop/firebase 4] a", "[firebase shop/firebase 3] b")
        let plan = ImportPlan(origin: try Self.origin(3...6), here: here, mark: Self.mark)
        #expect(plan.missing.map(\.number) == [5, 6])
        #expect(plan.others.isEmpty)
        #expect(ImportPlan(origin: try Self.origin(3...4), here: here, mark: Self.mark).missing.isEmpty)
    }

    @Test func versionsOfOthersSinceTheLastImportAreNamed() throws {
        let here = Self.here("hotfix", "", "[firebase shop/firebase 4] a", "before the first import")
        let plan = ImportPlan(origin: try Self.origin(4...5), here: here, mark: Self.mark)
        #expect(plan.others == [4, 3])
        #expect(ImportPlan(origin: [], here: Self.here("x"), mark: Self.mark).others == [1])
    }

    @Test func partsThatOnlyGoogleEvaluatesAreNamed() throws {
        let json = try JSONValue.parse(
            #"""
            {"conditions":[
              {"name":"buyers","expression":"app.audiences.inAtLeastOne(['Buyers']) && percent <= 10"},
              {"name":"segment","expression":"app.importedSegments.inAtLeastOne(['s'])"},
              {"name":"browser","expression":"app.browserAndVersion.inOne(['chrome'])"},
              {"name":"plain","expression":"device.os == 'ios'"}],
             "parameters":{
              "a":{"defaultValue":{"value":"1"},"conditionalValues":{"plain":{"personalizationValue":{"personalizationId":"p"}}}},
              "b":{"defaultValue":{"value":"1"},"conditionalValues":{
                "plain":{"rolloutValue":{"rolloutId":"r","value":"2","percent":10}}}},
              "c":{"defaultValue":{"value":"1"}}},
             "parameterGroups":{"g":{"parameters":{"d":{"defaultValue":{"value":"1"},"conditionalValues":{"plain":
               {"experimentValue":{"experimentId":"e","exposurePercent":10,"variantValue":[{"variantId":"v","value":"2"}]}}}}}}}}
            """#.utf8)
        let found = ImportFinding.all(in: try Template(stored: json)).map { "\($0.place): \($0.kind.rawValue)" }
        #expect(
            found == [
                "condition buyers: audience", "condition buyers: percent", "condition segment: importedSegment",
                "condition browser: browser", "parameter a: personalization", "parameter b: rollout",
                "parameter d: experiment",
            ])
    }
}
