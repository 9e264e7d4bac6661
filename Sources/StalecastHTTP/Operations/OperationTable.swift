/// One line of a listener's table: an operation as its document tells it, and what serves it. Requests are routed by
/// this table and `/openapi.json` is written from it, so the two cannot differ.
package struct Operation<Handler: Sendable>: Sendable {
    package let document: APIOperation
    package let handler: Handler

    package init(_ document: APIOperation, handler: Handler) {
        self.document = document
        self.handler = handler
    }
}

/// Values of the names in a path, decoded.
package struct PathValues: Sendable {
    private let values: [String: String]

    init(_ values: [String: String]) { self.values = values }

    /// Empty when the template has no such name.
    package subscript(name: String) -> String { values[name] ?? "" }
}

/// Finds a request's line. Firebase's `:verb` belongs to the last segment and may be spelled `%3A`; a segment is split
/// off before it is decoded, so `%2F` never makes a new one.
package struct OperationTable<Handler: Sendable>: Sendable {
    package let operations: [Operation<Handler>]
    /// Theirs, with their places, by the number of segments: to go through these copies nothing of the documents.
    private let paths: [Int: [(index: Int, path: PathTemplate)]]

    package enum Match: Sendable {
        case operation(Operation<Handler>, PathValues)
        /// Methods that the path allows, in the order of the table.
        case options([String])
    }

    package init(_ operations: [Operation<Handler>]) {
        self.operations = operations
        paths = Dictionary(
            grouping: operations.enumerated().map { (index: $0.offset, path: $0.element.document.path) }
        ) { $0.path.length }
    }

    /// - Parameters:
    ///   - method: in capitals. `HEAD` finds what `GET` finds.
    ///   - path: the target without its query, still percent-encoded.
    /// - Throws: 404, 405 with `Allow`, or 400 for a path that is no UTF-8.
    package func find(_ method: String, _ path: Substring) throws(GoogleError) -> Match {
        if path == "*" { return .options(allowed(Array(operations.indices))) }
        let candidates = candidates(try Self.segments(of: path))
        guard !candidates.isEmpty else {
            throw .notFound("There is nothing at this path; GET /openapi.json lists what there is.")
        }
        let wanted = method == "HEAD" ? "GET" : method
        if let (index, values) = candidates.first(where: { operations[$0.index].document.method == wanted }) {
            return .operation(operations[index], values)
        }
        let allowed = allowed(candidates.map { $0.index })
        if method == "OPTIONS" { return .options(allowed) }
        throw .methodNotAllowed(allowed)
    }

    private func allowed(_ indices: [Int]) -> [String] {
        var allowed: [String] = []
        for method in indices.map({ operations[$0].document.method }) where !allowed.contains(method) {
            allowed += method == "GET" ? ["GET", "HEAD"] : [method]
        }
        return allowed + ["OPTIONS"]
    }

    private static func segments(of path: Substring) throws(GoogleError) -> [String] {
        var segments: [String] = []
        segments.reserveCapacity(8)
        for raw in path.utf8.dropFirst().split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) {
            guard let decoded = PercentEncoding.decode(Substring(raw)), !decoded.utf8.contains(0) else {
                throw .invalidArgument("The path is not percent-encoded UTF-8.")
            }
            segments.append(decoded)
        }
        return segments
    }

    /// Every method of the path that fits best: `webhooks/{webhook}:test` rather than `webhooks/{webhook}`.
    private func candidates(_ segments: [String]) -> [(index: Int, values: PathValues)] {
        var found: [(Int, PathValues)] = []
        var fit = 0
        for (index, path) in paths[segments.count] ?? [] {
            guard path.literalBytes >= fit, let values = path.match(segments) else { continue }
            if path.literalBytes > fit {
                fit = path.literalBytes
                found = []
            }
            found.append((index, PathValues(values)))
        }
        return found
    }
}
