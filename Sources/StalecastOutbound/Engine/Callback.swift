import Synchronization

/// Waits for what `start` hands over to the function it is given, once, on whatever thread.
///
/// The value goes through a lock and not through the continuation, because the thread sanitizer knows nothing of those.
package func handedOver<Value: Sendable>(
    by start: (@escaping @Sendable (Value) -> Void) -> Void
) async -> Value {
    let place = Place<Value>()
    await withCheckedContinuation { continuation in
        start { value in
            place.value.withLock { $0 = value }
            continuation.resume()
        }
    }
    guard let value = place.value.withLock({ $0 }) else { preconditionFailure("resumed without a value") }
    return value
}

private final class Place<Value: Sendable>: Sendable {
    let value = Mutex<Value?>(nil)
}
