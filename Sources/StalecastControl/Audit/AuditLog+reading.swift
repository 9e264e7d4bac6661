package import StalecastWire

extension AuditLog {
    /// Bytes from the end of a file that are read at most: some 3,000 lines.
    private static let readBytes = 1 << 20

    /// The newest lines of the file that is written now, newest first. Leaves out lines that were cut off. Blocks.
    ///
    /// - Parameter isWanted: false leaves a line out.
    package func newest(_ limit: Int, where isWanted: (AuditSentence) -> Bool) -> [JSONObject] {
        let tail = AuditFiles.tail(of: "\(directory)/\(AuditFiles.current)", Self.readBytes + 1)
        // The first line may have begun before what was read.
        let lines = tail.split(separator: 0x0A).dropFirst(tail.count <= Self.readBytes ? 0 : 1)
        var found: [JSONObject] = []
        for line in lines.reversed() where found.count < limit {
            if let object = JSONValue.ifValid(Array(line))?.object, isWanted(AuditSentence(object)) {
                found.append(object)
            }
        }
        return found
    }
}
