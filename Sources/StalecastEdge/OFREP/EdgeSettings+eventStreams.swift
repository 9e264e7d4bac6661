import StalecastAccess
import StalecastHTTP
import StalecastHub
import StalecastWire

extension EdgeSettings {
    /// The value of `eventStreams`: where a provider hears of new versions of a scope, on a topic that announces all of
    /// them. The origin is left out: the provider takes that of its base URL, which is right behind any proxy. The URL
    /// is the same in every answer to a client, since a 304 carries none.
    ///
    /// EventSource sends no headers, so the URL alone must be enough. A key that apps may show is put into it; a
    /// secret key or a token never is, and a ticket is good for one connection only.
    ///
    /// - Parameter client: the stream is counted as its, with what it fetches.
    /// - Returns: nil where no URL opens to this caller.
    func eventStreams(
        of scope: Scope, on board: TopicBoard, for credentials: Credentials, as client: ClientIdentity?
    ) -> String? {
        let key = credentials.publicKey { !apiKeys.isEmpty && (try? keys.check($0)) != nil }  // is it a key?
        for key in [nil, key] {
            guard let topic = topic(of: scope, on: board, for: key) else { continue }
            var uri = "/v1/events?topic=\(PercentEncoding.encode(topic.description))&project=\(scope.project)"
            // A version may come between this answer and the stream: a stream without a cursor begins with what is current.
            uri += "&namespace=\(scope.namespace)&have=0"
            if let client { uri += "&client=\(PercentEncoding.encode(client.id))" }
            if let key { uri += "&key=\(PercentEncoding.encode(key))" }
            return JSONValue.array([["type": "sse", "endpoint": ["requestUri": .string(uri)]]]).text()
        }
        return nil
    }

    /// A topic that says every version of a scope, and that a stream with nothing but this key may hear.
    private func topic(of scope: Scope, on board: TopicBoard, for key: String?) -> TopicName? {
        var shown = Credentials()
        shown.queryKey = key
        if access.mode != .enforce, (try? keys.check(key)) == nil { return nil }  // is it a key?
        return board.topics.first { topic in
            topic.scope == scope && !topic.isInvalidation && !topic.isRetired && topic.keys.isEmpty
                && permits(shown) { $0.may(.watch, topic: topic) }
        }?.name
    }
}
