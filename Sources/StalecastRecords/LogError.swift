/// Reason why the log gave no answer.
package enum LogError: Error, Sendable, Hashable, CustomStringConvertible {
    /// Certainly nothing was changed.
    case notDone(String)
    /// The change may have been made, or may be made later.
    case unknown(String)
    /// Stored bytes that are not ours, or are newer than this program.
    case unreadable(String)

    package var description: String {
        switch self {
        case .notDone(let sentence), .unknown(let sentence), .unreadable(let sentence): sentence
        }
    }
}
