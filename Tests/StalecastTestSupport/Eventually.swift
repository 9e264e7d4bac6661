/// Waits for a fact, as long as the test may take.
package func eventually(_ isTrue: () async throws -> Bool) async throws {
    while try await !isTrue() { try await Task.sleep(for: .milliseconds(5)) }
}
