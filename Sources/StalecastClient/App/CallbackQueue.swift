import Foundation

/// Where completion handlers and listeners run, one at a time and in order.
struct CallbackQueue: Sendable {
    private let queue: DispatchQueue

    /// - Parameter queue: nil takes the main queue on Apple's systems and a queue of the SDK's own elsewhere.
    init(_ queue: DispatchQueue?) {
        #if canImport(Darwin)
            self.queue = queue ?? .main
        #else
            self.queue = queue ?? DispatchQueue(label: "stalecast.callbacks")
        #endif
    }

    func run(_ body: @escaping @Sendable () -> Void) { queue.async(execute: body) }
}
