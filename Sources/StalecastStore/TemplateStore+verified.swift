import StalecastWire

/// Time at which the replica was last known to be at its log's end. A file of sixteen digits (microseconds of the wall
/// clock) keeps it across restarts.
extension TemplateStore {
    /// Time since then; nil when it is unknown, or when the clock was set back.
    package var verifiedBefore: Duration? {
        // An unreadable file counts as a missing one.
        guard let bytes = try? FileOperation.head(directory.verified, count: 16), bytes.count == 16,
            let then = Int64(String(decoding: bytes, as: UTF8.self))
        else { return nil }
        let passed = configuration.now().microseconds.subtractingReportingOverflow(then)
        return passed.overflow || passed.partialValue < 0 ? nil : .microseconds(passed.partialValue)
    }

    /// Writes down that the replica is at its log's end now, without fsync. If the write is lost, the next start takes
    /// the replica for unverified, which is safe.
    package func noteVerified() {
        let digits = String(max(0, configuration.now().microseconds))
        let text = Array((String(repeating: "0", count: max(0, 16 - digits.count)) + digits).utf8)
        FileOperation.overwrite(directory.verified, with: text)
    }
}
