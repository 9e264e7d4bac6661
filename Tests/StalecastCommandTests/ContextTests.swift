import StalecastWire
import Testing
import stalecast

@Suite struct ContextTests {
    private static let file: ContextFile = {
        var file = ContextFile()
        file.current = "prod"
        file.contexts["prod"] = [.control: "https://prod", .tokenFile: "/prod.token", .project: "shop"]
        file.contexts["here"] = [.data: "/data"]
        return file
    }()

    private func surroundings(_ arguments: [String] = [], _ environment: [String: String] = [:]) throws -> Surroundings
    {
        try Surroundings(arguments: arguments, environment: environment) { Self.file }
    }

    @Test func whatIsStoredIsReadAgain() throws {
        #expect(try ContextFile(parsing: Self.file.json.encoded(.pretty), at: "x") == Self.file)
        for wrong in ["", "[]", "{}", "{\"contexts\":7}"] {
            #expect(throws: CommandFailure.self) { try ContextFile(parsing: wrong.utf8, at: "x") }
        }
    }

    @Test(arguments: [
        (["XDG_CONFIG_HOME": "/x", "HOME": "/h"], "/x"), (["XDG_CONFIG_HOME": "rel", "HOME": "/h"], "/h/.config"),
        (["HOME": "/h"], "/h/.config"),
    ])
    func theFileLiesWhereXDGSays(environment: [String: String], base: String) {
        #expect(ContextFile.path(environment) == base + "/stalecast/contexts.json")
    }

    @Test func variablesGoBeforeTheContextInUse() throws {
        #expect(try surroundings().value(.control) == "https://prod")
        let variables = ["STALECAST_CONTROL": "http://v", "STALECAST_PROJECT": "", "STALECAST_TOKEN": "t"]
        let both = try surroundings([], variables)
        #expect(both.value(.control) == "http://v" && both.value(.project) == "shop" && both.token == "t")
    }

    /// A token belongs to its daemon: it is not shown to another one.
    @Test func aTokenIsNotShownToAnotherDaemon() throws {
        #expect(try surroundings().value(.tokenFile) == "/prod.token")
        #expect(try surroundings().value(.tokenFile, isPlaced: true) == nil)
        for variable in ["STALECAST_CONTROL", "STALECAST_DATA"] {
            #expect(try surroundings([], [variable: "x"]).value(.tokenFile) == nil, "\(variable)")
        }
    }

    @Test(arguments: [["--context", "here"], ["publish", "--context=here"]])
    func theContextThatIsAskedForGoesBeforeVariables(arguments: [String]) throws {
        let asked = try surroundings(arguments, ["STALECAST_CONTROL": "http://v", "STALECAST_TOKEN": "t"])
        #expect(asked.value(.data) == "/data" && asked.value(.control) == nil && asked.token == nil)
        #expect(asked.nameOfContext(isPlaced: false) == "here")
    }

    @Test func aContextThatIsNotThereIsSaid() throws {
        for (arguments, environment) in [(["--context", "x"], [:]), ([], ["STALECAST_CONTEXT": "x"])] {
            let failure = #expect(throws: CommandFailure.self) { try surroundings(arguments, environment) }
            #expect(failure?.advice == "There is: here, prod.")
        }
        #expect(try surroundings(["publish", "--", "--context", "x"]).context?.name == "prod")
    }
}

@Suite struct TemplateEditTests {
    private static func edit() throws -> TemplateEdit {
        TemplateEdit(
            try JSONValue.parse(
                """
                {"conditions":[{"name":"fr","expression":"true"}],
                 "parameters":{"a":{"defaultValue":{"value":"1"},"conditionalValues":{"fr":{"value":"2"}},"x":7}},
                 "parameterGroups":{"g":{"description":"d","parameters":{"b":{"defaultValue":{"useInAppDefault":true}}}}},
                 "version":{"versionNumber":"3"}}
                """.utf8))
    }

    @Test func oneValueIsChangedAndNothingElse() throws {
        var edit = try Self.edit()
        try edit.set("a", to: "=9", if: nil)
        try edit.set("b", to: "yes", if: "fr")
        #expect(try edit.value("a")["value"]?.string == "=9" && edit.value("a", if: "fr")["value"]?.string == "2")
        #expect(try edit.parameter("a")["x"]?.int64 == 7 && edit.document["version"] == nil)
        let group = edit.document["parameterGroups"]?["g"]
        #expect(group?["description"]?.string == "d" && edit.document["parameters"]?["b"] == nil)
        #expect(group?["parameters"]?["b"]?["conditionalValues"]?["fr"]?["value"]?.string == "yes")
    }

    @Test func aNewParameterIsMadeOnlyWhenThatIsSaid() throws {
        var edit = try Self.edit()
        #expect(throws: CommandFailure.self) { try edit.set("new", to: "1", if: nil) }
        try edit.set("new", to: "1", if: nil, making: "NUMBER")
        try edit.set("a", to: "1", if: nil, making: "NUMBER")
        #expect(try edit.parameter("new")["valueType"]?.string == "NUMBER" && edit.parameter("a")["valueType"] == nil)
    }

    @Test func valuesAndParametersAreRemoved() throws {
        var edit = try Self.edit()
        try edit.unset("a", if: "fr")
        #expect(try edit.parameter("a")["conditionalValues"] == nil)
        try edit.unset("b", if: nil)
        #expect(edit.names == ["a"])
        #expect(throws: CommandFailure.self) { try edit.unset("b", if: nil) }
    }

    @Test func aNearNameIsOffered() throws {
        var edit = try Self.edit()
        let failure = #expect(throws: CommandFailure.self) { try edit.set("a", to: "1", if: "frr") }
        #expect(failure?.status == .notFound && failure?.advice == "Did you mean fr?")
    }
}
