import StalecastHub
import StalecastWire

/// What a stalled stream still has to be sent: the rest of one write. Newer messages are not stored; when the rest
/// is out, the board says what the newest of each topic is.
struct Backlog {
    var bytes: [UInt8]
    var offset = 0
    /// With `bytes` written, the subscriber has everything up to here.
    var through: CommitSequence
    /// The newest data message that came meanwhile; a later one takes its place.
    var data: DataMessage?
    /// Messages held back since the stall began.
    var deferred = 0
    /// When the client last took a byte.
    var progress: Tick

    var count: Int { bytes.count - offset }
}

/// The topics of a stream with more than one.
struct SeveralTopics {
    let topics: [Topic.Index]
    /// Places in the topics' member lists, in the order of `topics`.
    var positions: [Int32]
    /// The last announcement handled, so that a second topic of it does not send again.
    var handled: CommitSequence = 0
}
