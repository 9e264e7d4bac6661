import Foundation

/// The engine thread's part of a run under `callgrind --separate-threads=yes`.
///
/// Format: https://valgrind.org/docs/manual/cl-format.html. Names are written once as `(id) name` and then as `(id)`.
struct CallgrindProfile {
    /// Instructions in user space.
    let instructions: Int
    /// Calls of functions that give out memory.
    let allocations: Int

    private static let allocators: Set<String> = [
        "malloc", "calloc", "realloc", "memalign", "aligned_alloc", "posix_memalign",
    ]
    /// Only the engine's threads call it.
    private static let engineFunction = "stalecast_send"

    /// A run whose profile is not there or is of another format.
    struct NotFound: Error, CustomStringConvertible {
        let prefix: String
        var description: String { "no profile of an engine thread in \(prefix)-*" }
    }

    /// - Parameter prefix: the path given as `--callgrind-out-file`; each thread's profile has `-NN` after it.
    init(prefix: String) throws {
        let directory = URL(fileURLWithPath: prefix).deletingLastPathComponent()
        let name = URL(fileURLWithPath: prefix).lastPathComponent + "-"
        var instructions = 0
        var allocations = 0
        for file in try FileManager.default.contentsOfDirectory(atPath: directory.path) where file.hasPrefix(name) {
            let text = try String(contentsOf: directory.appending(path: file), encoding: .utf8)
            guard text.contains(") \(Self.engineFunction)") else { continue }
            let thread = Self.counts(in: text)
            instructions += thread.instructions
            allocations += thread.allocations
        }
        guard instructions > 0 else { throw NotFound(prefix: prefix) }
        self.instructions = instructions
        self.allocations = allocations
    }

    private static func counts(in text: String) -> (instructions: Int, allocations: Int) {
        var allocatorIDs: Set<Substring> = []
        var callsAllocator = false
        var counts = (instructions: 0, allocations: 0)
        for line in text.split(separator: "\n") {
            if line.hasPrefix("fn=") {
                note(line.dropFirst(3), in: &allocatorIDs)
            } else if line.hasPrefix("cfn=") {
                note(line.dropFirst(4), in: &allocatorIDs)
                callsAllocator = allocatorIDs.contains(line.dropFirst(4).prefix { $0 != " " })
            } else if callsAllocator, line.hasPrefix("calls=") {
                counts.allocations += Int(line.dropFirst(6).prefix { $0 != " " }) ?? 0
            } else if line.hasPrefix("totals: ") {
                counts.instructions = Int(line.dropFirst(8)) ?? 0
            }
        }
        return counts
    }

    /// Keeps the id of a function that is named here and gives out memory.
    private static func note(_ function: Substring, in ids: inout Set<Substring>) {
        guard let space = function.firstIndex(of: " ") else { return }
        let name = function[function.index(after: space)...]
        if allocators.contains(String(name)) { ids.insert(function[..<space]) }
    }
}
