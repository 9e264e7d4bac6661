import StalecastWire

extension ControlRequest {
    /// Whether a publish asks clients to fetch at once: header `X-Stalecast-Urgent: true`, or `[urgent]` in the
    /// description.
    func isUrgent(_ description: String) throws(GoogleError) -> Bool {
        switch headers["x-stalecast-urgent"]?.lowercased() {
        case "true", "1": return true
        case nil, "false", "0": return description.contains(ChangeNotes.urgentMarker)
        default: throw .invalidArgument("X-Stalecast-Urgent must be true or false.")
        }
    }
}
