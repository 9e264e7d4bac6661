import Foundation
import StalecastClient
import StalecastWire
import Testing

@Suite struct CustomSignalsTests {
    private let server = LocalConfigServer(values: [:])

    private func sent() throws -> JSONValue? {
        try JSONValue.parse(try #require(server.lastRequest?.body))["customSignals"]
    }

    @Test func signalsMergeAndNilRemoves() async throws {
        let directory = scratchDirectory()
        let config = StalecastApp.test(server, directory: directory).config
        try await config.setCustomSignals(["city": "york", "level": 3])
        try await config.setCustomSignals(["city": nil, "name": .string("x")])
        try await config.fetch(withExpirationDuration: 0)
        #expect(try sent() == ["level": "3", "name": "x"])
        let reborn = StalecastApp.test(server, directory: directory).config
        try await reborn.fetch(withExpirationDuration: 0)
        #expect(try sent() == ["level": "3", "name": "x"], "they outlive the process")
    }

    @Test func limitsAreFirebases() async throws {
        let config = StalecastApp.test(server).config
        let full = Dictionary(uniqueKeysWithValues: (1...100).map { ("k\($0)", CustomSignalValue.integer($0)) })
        try await config.setCustomSignals(full)
        for refused: [String: CustomSignalValue?] in [
            ["one more": 1], [String(repeating: "k", count: 251): 1],
            ["k1": .string(String(repeating: "v", count: 501))],
        ] {
            let error = await #expect(throws: RemoteConfigCustomSignalsError.self) {
                try await config.setCustomSignals(refused)
            }
            #expect(error?.code == .limitExceeded)
            #expect((error as NSError?)?.code == 8103)
        }
        try await config.setCustomSignals(["k1": .string(String(repeating: "v", count: 500)), "k2": nil])
        try await config.fetch()
        #expect(try sent()?.object?.count == 99)
        let error = await withCheckedContinuation { done in
            config.setCustomSignals(["x": 1, "y": 2]) { done.resume(returning: $0 as? RemoteConfigCustomSignalsError) }
        }
        #expect(error?.code == .limitExceeded)
    }
}
