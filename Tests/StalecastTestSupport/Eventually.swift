/// A fact that did not become true in time.
package struct NotInTime: Error, CustomStringConvertible {
    package let description: String

    package init(description: String) { self.description = description }
}

/// Waits for a fact, with a look at it each 2 ms: polling leaves the processor to what is waited for.
///
/// - Parameters:
///   - fact: words for the failure, beside the place of the call.
///   - limit: long enough for a machine that does much else.
package func eventually(
    _ fact: String = "", within limit: Duration = .seconds(120), file: String = #fileID, line: Int = #line,
    _ isTrue: () async throws -> Bool
) async throws {
    let end = ContinuousClock.now + limit
    while try await !isTrue() {
        guard ContinuousClock.now < end else {
            throw NotInTime(description: "\(file):\(line): not true within \(limit)\(fact.isEmpty ? "" : ": \(fact)")")
        }
        try await Task.sleep(for: .milliseconds(2))
    }
}

/// Waits until the task is cancelled.
package func untilCancelled() async {
    // Cancelled: it ends at once.
    while (try? await Task.sleep(for: .seconds(3600))) != nil {}
}
