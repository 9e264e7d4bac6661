import StalecastWire

/// Puts a request's body together from its pieces, under a cap that holds for the bytes as sent and again for the
/// bytes after inflation. gzip is found by its magic bytes whatever the headers say: Firebase's JS SDK declares gzip
/// and sends plain text.
struct BodyReader: ~Copyable {
    private enum Kind {
        /// Too few bytes to tell.
        case unknown
        case plain
        case gzip
    }

    private let cap: Int
    private var kind = Kind.unknown
    private var received = 0
    /// What is there, uninflated.
    private var bytes: [UInt8] = []
    private var inflater: Inflater

    /// - Parameter cap: bytes.
    init(cap: Int) {
        self.cap = cap
        inflater = Inflater(cap: cap)
    }

    /// - Throws: 413 when the cap is exceeded, 400 for damaged gzip.
    mutating func append(_ piece: some Sequence<UInt8>) throws(GoogleError) {
        let before = bytes.count
        bytes.append(contentsOf: piece)
        received += bytes.count - before
        if received > cap { throw .bodyTooLarge(limit: cap) }
        if kind == .unknown, bytes.count >= 2 { kind = Inflater.recognises(bytes) ? .gzip : .plain }
        guard kind == .gzip else { return }
        do throws(Inflater.Failure) {
            try inflater.feed(bytes)
            bytes.removeAll(keepingCapacity: true)
        } catch {
            throw refusal(error)
        }
    }

    /// The whole body, inflated.
    consuming func finish() throws(GoogleError) -> [UInt8] {
        guard kind == .gzip else { return bytes }
        let cap = cap
        do throws(Inflater.Failure) { return try inflater.finish() } catch {
            throw Self.refusal(error, cap)
        }
    }

    private func refusal(_ failure: Inflater.Failure) -> GoogleError { Self.refusal(failure, cap) }

    private static func refusal(_ failure: Inflater.Failure, _ cap: Int) -> GoogleError {
        switch failure {
        case .tooLarge: .bodyTooLarge(limit: cap)
        case .damaged: GoogleError.invalidArgument("The request body begins as gzip but cannot be inflated.").closing()
        }
    }
}
