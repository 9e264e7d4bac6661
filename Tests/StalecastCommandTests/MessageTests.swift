import StalecastWire
import Testing
import stalecast

@Suite struct MessageTests {
    private static let message = """
        {"CONFIG_STATE":"STALE","topic":"PUSH_RC","project":"shop","namespace":"firebase","updateType":"ROLLBACK",\
        "latestTemplateVersionNumber":"17","changedKeys":["pay_limit","title"]}
        """

    @Test(arguments: [
        ([], true), (["pay_*"], true), (["banner", "t?tle"], true), (["banner"], false), (["pay"], false),
    ])
    func messagesAreWantedByTheirKeys(patterns: [String], isWanted: Bool) throws {
        let filter = MessageFilter(try patterns.map { try KeyPattern($0) })
        #expect(filter.wants(Self.message) == isWanted)
    }

    @Test(arguments: [#"{"CONFIG_STATE":"STALE"}"#, #"{"changedKeys":7}"#, "[]", "plain", ""])
    func aMessageThatDoesNotSayWhatChangedIsWanted(data: String) throws {
        #expect(MessageFilter([try KeyPattern("pay_*")]).wants(data))
    }

    @Test func aCommandFindsWhatTheMessageSays() {
        #expect(
            MessageCommand.variables(of: Self.message) == [
                "STALE_VERSION": "17", "STALE_TOPIC": "PUSH_RC", "STALE_PROJECT": "shop",
                "STALE_NAMESPACE": "firebase", "STALE_UPDATE_TYPE": "ROLLBACK",
                "STALE_CHANGED_KEYS": "pay_limit,title",
            ])
    }

    @Test(arguments: ["plain", "[]", #"{"topic":7,"changedKeys":{}}"#, #"{"topic":"\u0000"}"#])
    func aMessageOfAnyShapeLeavesNoVariableOut(data: String) {
        let variables = MessageCommand.variables(of: data)
        #expect(variables.count == 6 && variables.values.allSatisfy(\.isEmpty))
    }
}
