package struct NotInTime: Error {}

/// Waits for a fact.
package func eventually(within limit: Duration = .seconds(60), _ isTrue: () async throws -> Bool) async throws {
    let end = ContinuousClock.now + limit
    while try await !isTrue() {
        guard ContinuousClock.now < end else { throw NotInTime() }
        try await Task.sleep(for: .milliseconds(2))
    }
}
