import StalecastHTTP
import StalecastStore
import StalecastWire

extension Call {
    /// `POST /v1/backup`: the whole store with all keys' hashes and the sealed secrets of webhooks, so it asks for what
    /// may change keys.
    func backUp() async throws(GoogleError) -> Answer {
        let download: BackupDownload
        do throws(StoreError) { download = try await control.store.download() } catch {
            if case .alreadyExists(let sentence) = error {
                throw GoogleError(429, "RESOURCE_EXHAUSTED", "No backup was made: \(sentence).")
                    .with("Retry-After", "10")
            }
            throw GoogleError(503, "UNAVAILABLE", "No backup was made: \(error.description)").with("Retry-After", "60")
        }
        note.set("bytes", .int(download.size))
        var answer = Answer(contentType: "application/octet-stream", body: [])
        answer.events = EventFeed(length: download.size) { await Self.send(download, $0) }
        return answer
    }

    /// Ends early when a piece cannot be read: the client sees that bytes are missing.
    private static func send(_ download: BackupDownload, _ send: EventFeed.Send) async {
        defer { download.end() }
        var offset = 0
        while offset < download.size {
            let piece = download.piece(at: offset)
            if piece.isEmpty { return }
            while await !send(piece) {
                // The client has not taken the piece before; or it is gone, and this task is cancelled.
                do { try await Task.sleep(for: .milliseconds(5)) } catch { return }
            }
            offset += piece.count
        }
    }
}
