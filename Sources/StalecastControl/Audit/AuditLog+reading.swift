import Foundation
package import StalecastWire

extension AuditLog {
    /// The newest lines of the file that is written now, newest first. Leaves out lines that were cut off. Blocks.
    ///
    /// - Parameter isWanted: false leaves a line out.
    package func newest(_ limit: Int, where isWanted: (AuditSentence) -> Bool) -> [JSONObject] {
        var found: [JSONObject] = []
        for line in lastLines(of: "\(directory)/\(AuditFiles.current)").reversed() where found.count < limit {
            guard let object = JSONValue.ifValid(Array(line))?.object, isWanted(AuditSentence(object)) else {
                continue
            }
            found.append(object)
        }
        return found
    }
}

/// Bytes from the end of a file that are read at most: some 3,000 lines.
private let readBytes = 1 << 20

private func lastLines(of path: String) -> [ArraySlice<UInt8>] {
    let file = open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { return [] }
    defer { close(file) }
    let size = Int(lseek(file, 0, SEEK_END))
    var bytes = [UInt8](repeating: 0, count: max(0, min(size, readBytes)))
    let start = size - bytes.count
    let count = bytes.withUnsafeMutableBytes { pread(file, $0.baseAddress, $0.count, off_t(start)) }
    bytes.removeLast(bytes.count - max(0, count))
    let lines = bytes.split(separator: 0x0A)
    // The first one may have begun before what was read.
    return start > 0 ? Array(lines.dropFirst()) : lines
}
