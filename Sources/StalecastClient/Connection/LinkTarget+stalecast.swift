import Foundation
import StalecastWire

extension LinkTarget {
    /// A request for the topics, to which dialects add their own.
    ///
    /// - Parameter have: the version that is held; counts only while there is no cursor.
    func request(_ path: String, have: Int64?) -> StreamRequest {
        var items = topics.map { URLQueryItem(name: "topic", value: $0) }
        if let have { items.append(URLQueryItem(name: "have", value: String(max(0, have)))) }
        var request = StreamRequest(url: endpoint.appendingPathComponent(path).adding(items), headers: options.headers)
        request.prefersURLSession = options.prefersURLSession
        return request
    }

    /// What one of Stalecast's events means; nil for those that a later server may have added.
    func connectionEvent(_ event: ServerSentEvent) -> ConnectionEvent? {
        switch event.type {
        case "message": return NoticeReader.event(event.data.utf8, topic: topics.first ?? "")
        case "synced": return .synced(cursor: event.lastEventID.isEmpty ? nil : event.lastEventID)
        case "reset":
            // The reason is for people; a reset without one is a reset.
            let data = try? JSONValue.parse(event.data.utf8)
            return .reset(reason: data?["reason"]?.string ?? "")
        default: return nil
        }
    }
}
