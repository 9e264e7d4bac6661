import StalecastWire

/// Time when the replica was last known to be at its log's end, over restarts: sixteen digits, microseconds of the wall
/// clock.
extension TemplateStore {
    /// Time since the last confirmation, as of now; nil: not known, also where the clock was set back.
    package var verifiedBefore: Duration? {
        // A file that cannot be read is one that says nothing.
        guard let bytes = try? FileOperation.head(directory.verified, count: 16), bytes.count == 16,
            let then = Int64(String(decoding: bytes, as: UTF8.self))
        else { return nil }
        let passed = configuration.now().microseconds.subtractingReportingOverflow(then)
        return passed.overflow || passed.partialValue < 0 ? nil : .microseconds(passed.partialValue)
    }

    /// The replica is at its log's end now. Kept without a synchronisation; where it cannot be kept, the next start
    /// knows nothing, which is the safe side.
    package func noteVerified() {
        let digits = String(max(0, configuration.now().microseconds))
        let text = Array((String(repeating: "0", count: max(0, 16 - digits.count)) + digits).utf8)
        FileOperation.overwrite(directory.verified, with: text)
    }
}
