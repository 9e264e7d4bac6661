package import Foundation

/// One protocol over HTTP: what is asked, and what the answer's bytes mean. A value without effects; a
/// ``LinkAttempt`` connects for it.
package protocol LinkDialect: Sendable {
    associatedtype Output: Sendable

    /// Event that makes an exchange count as open.
    var opening: LinkOpening { get }
    /// Seconds that the server may think before it answers the next exchange, on top of what others may.
    var hold: TimeInterval { get }
    /// The next exchange's request.
    func request() -> PlannedRequest
    /// A new answer begins. Redirects and statuses outside 200–299 are not shown.
    ///
    /// - Throws: when it is not what this dialect understands.
    mutating func begin(_ head: ResponseHead) throws(LinkLoss)
    /// - Throws: when nothing that follows can be understood either.
    mutating func receive(_ bytes: [UInt8]) throws(LinkLoss) -> [DialectStep<Output>]
    /// The answer is complete.
    mutating func end() throws(LinkLoss) -> DialectEnd<Output>
    /// An exchange failed.
    mutating func lost()
}

extension LinkDialect {
    package var hold: TimeInterval { 0 }
    package mutating func lost() {}
}

package enum LinkOpening: Sendable {
    case head, firstBytes, completeAnswer
}

package enum PlannedRequest: Sendable {
    case ready(StreamRequest)
    /// Something must be asked for first; an error counts as a failed attempt.
    case later(@Sendable () async throws -> StreamRequest)
}

package enum DialectStep<Output: Sendable>: Sendable {
    case output(Output)
    /// The server names the reconnect delay, in seconds.
    case retry(TimeInterval)
    /// The server asks not to be called for so many seconds once the stream ends; no failure.
    case pause(TimeInterval)
}

package enum DialectEnd<Output: Sendable>: Sendable {
    /// A stream's end: to be opened again.
    case closed
    /// An answer's end, which is no failure; `isNews`: it moved something, so the next may be asked for at once.
    case answered([DialectStep<Output>], isNews: Bool)
}
