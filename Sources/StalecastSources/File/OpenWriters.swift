/// The files that are being written to, as far as events tell.
struct OpenWriters: Sendable {
    /// By directory and name, when they were written to last.
    private var written: [String: ContinuousClock.Instant] = [:]

    /// Who keeps a file open and is silent for so long is taken to be done. In seconds.
    static let patience = 2.0

    /// - Parameter isRead: whether the file has a part in the template.
    /// - Returns: true when a file is written to that was not.
    mutating func hear(_ event: FileWatch.Event, isRead: Bool) -> Bool {
        let name = "\(event.directory)/\(event.name)"
        guard event.isUnfinished, isRead else {
            written[name] = nil
            return false
        }
        return written.updateValue(.now, forKey: name) == nil
    }

    var areOpen: Bool {
        let now = ContinuousClock.now
        return written.values.contains { now - $0 < .seconds(Self.patience) }
    }
}
