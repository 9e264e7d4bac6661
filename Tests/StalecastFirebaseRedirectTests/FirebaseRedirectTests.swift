import Foundation
import StalecastTestServers
import Testing

import StalecastFirebaseRedirect

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Asks as Firebase's SDK does: with Google's addresses, through a session of its own.
@Suite(.serialized) struct FirebaseRedirectTests {
    private static let stream = "https://firebaseremoteconfigrealtime.googleapis.com/v1/projects/1/namespaces/firebase"

    /// A session of an app's that has the redirect.
    private static func session(_ delegate: (any URLSessionDelegate)? = nil) -> URLSession {
        let configuration = URLSessionConfiguration.default
        StalecastFirebaseRedirect.add(to: configuration)
        return URLSession(configuration: configuration, delegate: delegate, delegateQueue: nil)
    }

    @Test func onlyFirebasesHostsAreRedirectedWithPathAndQuery() throws {
        StalecastFirebaseRedirect.install(edge: try #require(URL(string: "http://10.0.2.2:8080/edge/")))
        let places = [
            "https://firebaseremoteconfig.googleapis.com/v1/projects/p/namespaces/firebase:fetch?key=a%2Fb":
                "http://10.0.2.2:8080/edge/v1/projects/p/namespaces/firebase:fetch?key=a%2Fb",
            "https://firebaseinstallations.googleapis.com/v1/projects/p/installations":
                "http://10.0.2.2:8080/edge/v1/projects/p/installations",
            "\(Self.stream):streamFetchInvalidations":
                "http://10.0.2.2:8080/edge/v1/projects/1/namespaces/firebase:streamFetchInvalidations",
        ]
        for (google, edge) in places {
            #expect(StalecastFirebaseRedirect.redirected(URL(string: google))?.absoluteString == edge)
        }
        for other in ["https://example.org/", "https://googleapis.com/", "https://firebaselogging.googleapis.com/"] {
            #expect(!StalecastFirebaseRedirect.canInit(with: URLRequest(url: try #require(URL(string: other)))))
        }
    }

    @Test func aFetchArrivesAtEdgeWithItsBodyAndHeadersAndBringsTheAnswer() async throws {
        let answer = { @Sendable (_: OriginServer.Request) -> OriginServer.Reply in
            OriginServer.Reply(bytes: Array("HTTP/1.1 200 OK\r\nETag: e1\r\nContent-Length: 2\r\n\r\n{}".utf8))
        }
        try await OriginServer.serving(answer) { server in
            StalecastFirebaseRedirect.install(edge: try #require(URL(string: server.url)))
            var request = URLRequest(
                url: try #require(
                    URL(string: "https://firebaseremoteconfig.googleapis.com/v1/projects/1/namespaces/firebase:fetch")))
            request.httpMethod = "POST"
            request.setValue("key", forHTTPHeaderField: "X-Goog-Api-Key")
            request.httpBody = Data(#"{"appId":"1:1:ios:1"}"#.utf8)
            let (data, response) = try await Self.session().data(for: request)
            #expect(String(decoding: data, as: UTF8.self) == "{}")
            #expect((response as? HTTPURLResponse)?.value(forHTTPHeaderField: "ETag") == "e1")
            let arrived = try #require(server.requests.first)
            #expect(arrived.method == "POST" && arrived.target == "/v1/projects/1/namespaces/firebase:fetch")
            #expect(arrived.headers["x-goog-api-key"] == "key" && arrived.body == #"{"appId":"1:1:ios:1"}"#)
        }
    }

    @Test func aMessageOfTheStreamComesWhileTheStreamIsOpen() async throws {
        let message = #"{"latestTemplateVersionNumber":"7"}"#
        let answer = { @Sendable (_: OriginServer.Request) -> OriginServer.Reply in
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
            let chunk = "\(String(message.utf8.count, radix: 16))\r\n\(message)\r\n"
            return OriginServer.Reply(bytes: Array((head + chunk).utf8), hangs: true)
        }
        try await OriginServer.serving(answer) { server in
            StalecastFirebaseRedirect.install(edge: try #require(URL(string: server.url)))
            var request = URLRequest(url: try #require(URL(string: "\(Self.stream):streamFetchInvalidations")))
            request.httpMethod = "POST"
            request.httpBody = Data("{}".utf8)
            let (bytes, sink) = AsyncStream.makeStream(of: Data.self)
            let session = Self.session(Receiver(sink))
            session.dataTask(with: request).resume()
            var received = ""
            for await piece in bytes {
                received += String(decoding: piece, as: UTF8.self)
                if received == message { break }
            }
            #expect(received == message)
            session.invalidateAndCancel()
        }
    }

    @Test func aRefusedConnectionIsTheAppsError() async throws {
        StalecastFirebaseRedirect.install(edge: try #require(URL(string: "http://127.0.0.1:1")))
        let url = try #require(URL(string: "https://firebaseinstallations.googleapis.com/v1/projects/p/installations"))
        await #expect(throws: (any Error).self) { try await Self.session().data(from: url) }
    }

    private final class Receiver: NSObject, URLSessionDataDelegate {
        private let sink: AsyncStream<Data>.Continuation

        init(_ sink: AsyncStream<Data>.Continuation) { self.sink = sink }

        func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) { sink.yield(data) }

        func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
            sink.finish()
        }
    }
}
