import Foundation
package import StalecastAccess
import StalecastWire

/// End of an audit log, kept beside it: a log that is behind its mark was cut off, deleted or replaced.
///
/// Written at the start and at the end of a daemon, each time after the log itself was synchronised. So after a loss of
/// power the mark is never ahead of the log; what was written since the start is not guarded against deletion.
package struct AuditMark: Sendable, Equatable {
    /// The number of the last line, and its hash.
    package let count: Int64
    package let hash: String

    private static let name = "audit.mark"

    init(_ chain: AuditChain) { (count, hash) = (chain.count, chain.hash) }

    /// nil where there is none, as before the first start that wrote one, or none that makes sense.
    package init?(in directory: String) {
        guard let text = try? String(contentsOfFile: "\(directory)/\(Self.name)", encoding: .utf8) else { return nil }
        let words = text.split(whereSeparator: \.isWhitespace)
        guard words.count == 2, let count = Int64(words[0]), (0..<1 << 53).contains(count), words[1].utf8.count == 64
        else {
            return nil
        }
        (self.count, hash) = (count, String(words[1]))
    }

    /// Replaces the mark of a directory. One that cannot be written leaves the former, which is lower and does no harm.
    func write(in directory: String) {
        let path = "\(directory)/\(Self.name)"
        _ = WholeFile.replace(path, with: Array("\(count) \(hash)\n".utf8), through: path + ".next")
    }

    /// Difference between a log that ends so and the one that was marked; nil when they may be the same.
    ///
    /// - Parameter isTorn: the end of the process cut off what follows its last line.
    package func contradiction(_ chain: AuditChain, isTorn: Bool) -> String? {
        if count > chain.count {
            return "ends with line \(chain.count), and line \(count) was written: it was cut off, deleted or replaced"
        }
        if count == chain.count, !isTorn, hash != chain.hash {
            return "is another one than was written, or its last line is"
        }
        return nil
    }
}
