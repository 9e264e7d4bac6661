import Foundation

/// Queue on which completion handlers and listeners run, one at a time and in order.
struct CallbackQueue: Sendable {
    private let queue: DispatchQueue
    private let onProblem: (@Sendable (StalecastProblem) -> Void)?

    /// - Parameter queue: nil takes the main queue on Apple's systems and a queue of the SDK's own elsewhere.
    init(_ queue: DispatchQueue?, onProblem: (@Sendable (StalecastProblem) -> Void)?) {
        self.onProblem = onProblem
        #if canImport(Darwin)
            self.queue = queue ?? .main
        #else
            self.queue = queue ?? DispatchQueue(label: "stalecast.callbacks")
        #endif
    }

    func run(_ body: @escaping @Sendable () -> Void) { queue.async(execute: body) }

    /// Calls a completion handler with the error of an outcome, or nil.
    func run(_ outcome: Result<Void, any Error>, _ completion: (@Sendable ((any Error)?) -> Void)?) {
        run {
            if case .failure(let error) = outcome { completion?(error) } else { completion?(nil) }
        }
    }

    /// Tells the app of a problem: never on the caller's thread, which may hold locks that the app's handler needs.
    func report(_ problem: StalecastProblem) {
        if let onProblem { run { onProblem(problem) } }
    }
}
