/// The end of a sentence about an unknown key or variable: `; the nearest known key is edge.heartbeat`. Names that
/// are too different are not proposed.
func hint(at nearest: String?, _ noun: String = "key") -> String {
    nearest.map { "; the nearest known \(noun) is \($0)" }
        ?? "; `stalecast check-config --explain` prints every \(noun) there is"
}
