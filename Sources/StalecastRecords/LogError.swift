/// Why the log gave no answer.
package enum LogError: Error, Sendable, Hashable, CustomStringConvertible {
    /// Certainly nothing was changed.
    case notDone(String)
    /// It may have been done, or be done later.
    case unknown(String)
    /// Stored bytes that are not ours, or are newer than this program.
    case unreadable(String)

    package var description: String {
        switch self {
        case .notDone(let sentence), .unknown(let sentence), .unreadable(let sentence): sentence
        }
    }
}
