import Foundation
import StalecastWire

extension StaleLink.Target {
    /// A request for the topics, to which dialects add their own.
    ///
    /// - Parameter have: the version that is held; counts only while there is no cursor.
    func request(_ path: String, have: Int64?) -> StreamRequest {
        var items = topics.map { URLQueryItem(name: "topic", value: $0) }
        if let project { items.append(URLQueryItem(name: "project", value: project)) }
        if let namespace { items.append(URLQueryItem(name: "namespace", value: namespace)) }
        if let active = active() { items.append(URLQueryItem(name: "active", value: String(max(0, active)))) }
        if let have { items.append(URLQueryItem(name: "have", value: String(max(0, have)))) }
        var request = StreamRequest(url: endpoint.appendingPathComponent(path).adding(items), headers: options.headers)
        request.prefersURLSession = options.prefersURLSession
        request.authorityFile = options.authorityFile
        return request
    }

    /// Meaning of one of Stalecast's events; nil for those that a later server may have added.
    func connectionEvent(_ event: ServerSentEvent) -> ConnectionEvent? {
        switch event.type {
        case "message":
            let notice = NoticeReader.event(event.data.utf8, topic: topics.first ?? "")
            guard case .stale(var notice) = notice else { return notice }
            notice.cursor = event.lastEventID.isEmpty ? nil : event.lastEventID
            return .stale(notice)
        case "unknown-topics":
            // An event without names changes nothing.
            let data = JSONValue.ifValid(event.data.utf8)
            return data?["topics"]?.array.map { .unknownTopics($0.compactMap(\.string)) }
        case "synced": return .synced(cursor: event.lastEventID.isEmpty ? nil : event.lastEventID)
        case "reset":
            // The reason is for people; a reset without one is a reset.
            let data = JSONValue.ifValid(event.data.utf8)
            return .reset(reason: data?["reason"]?.string ?? "")
        default: return nil
        }
    }

    /// Topics that the server says it does not have, each asked for alone; empty when the server cannot be asked.
    func unknownTopics() async -> [String] {
        var unknown: [String] = []
        for topic in topics {
            var single = self
            single.topics = [topic]
            let request = single.request("v1/state", have: nil)
            var question = TransportRequest(
                method: "GET", url: request.url, headers: request.headers, timeout: options.openingLimit)
            question.authorityFile = options.authorityFile
            let answer = try? await NetworkTransport.shared.send(question)  // unreachable: the next attempt says why
            guard let answer else { return [] }
            // A 404 that does not speak of topics is that of another kind of server.
            let isAboutTopics = String(decoding: answer.body.prefix(4096), as: UTF8.self).contains("topic")
            if answer.status == 404, isAboutTopics { unknown.append(topic) }
        }
        return unknown
    }
}
