/// Schedule of the repeated message: the newest of a burst is said once more on Firebase's streams.
///
/// The JS SDK does not read while it waits up to three seconds and fetches; of the messages that have piled up it then
/// takes the first and drops the others. When that first one is what the fetch has just brought, it is passed over and
/// the newest is lost until the stream ends. So the last message of a burst comes again when every client reads, once;
/// one that has the version already passes it over, or is told "no change". Messages that stand alone never come twice.
package struct BurstEcho: Equatable {
    /// Time when the last message was written; nil before the first. In milliseconds of any clock, as all times here.
    private var lastAt: UInt64?
    /// Time when the newest message is to be repeated; nil when it is not.
    package private(set) var due: UInt64?

    package init() {}

    /// A message was written.
    ///
    /// - Parameter delayMs: messages closer to each other than this are a burst; it is also how long after the last one
    ///   the echo follows.
    package mutating func said(at now: UInt64, delayMs: UInt64) {
        if let lastAt, now - lastAt < delayMs { due = now + delayMs }
        lastAt = now
    }

    /// Notes that the same message was written to more streams: the last one counts as written now.
    package mutating func saidMore(at now: UInt64, delayMs: UInt64) {
        if due != nil { due = now + delayMs }
        lastAt = now
    }

    /// True when the newest is to be said now; then, until there is another burst, not again.
    package mutating func takeDue(at now: UInt64) -> Bool {
        guard let due, due <= now else { return false }
        self.due = nil
        lastAt = nil
        return true
    }
}
