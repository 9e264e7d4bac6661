import StalecastControl
import StalecastHTTP
import StalecastWire
import Testing

@Suite("JSON body")
struct JSONBodyTests {
    @Test func structureInsideStringsDoesNotCount() throws {
        let text = String(repeating: #",:[{\""#, count: JSONBody.maxStructure)
        #expect(
            try JSONBody.parse(Array(#"{"a":"\#(text)"}"#.utf8))["a"]?.string?.utf8.count == 5 * JSONBody.maxStructure)
    }

    @Test(arguments: ["1,", "{},", "[],", #"{"":0},"#])
    func tooMuchStructureIsRefusedBeforeItIsParsed(piece: String) {
        let body = Array("[".utf8) + Array(String(repeating: piece, count: JSONBody.maxStructure).utf8)
        #expect {
            try JSONBody.parse(body)
        } throws: { ($0 as? GoogleError)?.message.contains("more than \(JSONBody.maxStructure)") == true }
    }

    @Test func aTemplateOfTwoThousandParametersWithFiftyValuesEachIsParsed() throws {
        let values = (0..<50).map { #""c\#($0)":{"value":"x"}"# }.joined(separator: ",")
        let parameter = #"{"defaultValue":{"value":"x"},"conditionalValues":{\#(values)},"valueType":"STRING"}"#
        let parameters = (0..<2000).map { #""p\#($0)":\#(parameter)"# }.joined(separator: ",")
        let json = try JSONBody.parse(Array(#"{"parameters":{\#(parameters)}}"#.utf8))
        #expect(json["parameters"]?.object?.count == 2000)
    }
}
