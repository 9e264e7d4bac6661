import StalecastStore
import StalecastTemplate
import StalecastTestSupport
import StalecastWire
import Testing

/// Numbers of origins, as far as they are versions at all. A trap ends the process, and with it the tests.
@Suite struct BoundaryNumberTests {
    /// `clamping` is what a client's lenient reading makes of any number.
    @Test(arguments: boundaryNumbers) func anOriginsNumberIsAdoptedAndCountedFrom(text: String) async throws {
        guard let raw = Int64(text), raw != 0 else { return }
        for number in Set([VersionNumber(text), VersionNumber(clamping: raw)].compactMap { $0 }) where number > 0 {
            let directory = try TemporaryDirectory()
            let store = try TemplateStore.make(directory)
            let adoption = Adoption(scope: .demo, template: try .greeting("a"), number: number)
            #expect(try await store.adopt(adoption)?.version == number)
            // The origin is given up: what follows is counted here, as long as there are numbers.
            for value in ["b", "c"] {
                let counted = Adoption(scope: .demo, template: try .greeting(value))
                if number < .max {
                    _ = try? await store.adopt(counted)
                } else {
                    await #expect(throws: StoreError.self) { try await store.adopt(counted) }
                }
            }
            store.close()
        }
    }
}
