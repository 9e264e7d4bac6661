import Foundation
import StalecastClient
import StalecastWire

/// One stream the harness asked for, and the reports of it.
final class StreamSession: Sendable {
    /// Error in the harness's parameters.
    struct Unusable: Error, CustomStringConvertible { let description: String }

    private let stream: EventStream
    private let reports: AsyncStream<JSONValue>.Continuation

    /// - Parameter parameters: `streamUrl`, `callbackUrl`, and optionally `initialDelayMs`, `readTimeoutMs`,
    ///   `lastEventId`, `headers`, `method`, `body`.
    init(_ parameters: JSONValue, usesURLSession: Bool) throws(Unusable) {
        guard let url = parameters["streamUrl"]?.string.flatMap({ URL(string: $0) }),
            let callback = parameters["callbackUrl"]?.string
        else { throw Unusable(description: "streamUrl and callbackUrl are needed, and must be URLs") }
        let (incoming, reports) = AsyncStream<JSONValue>.makeStream()
        self.reports = reports
        var settings = Self.settings(parameters, url)
        settings.request.prefersURLSession = usesURLSession
        stream = EventStream(settings) { event in
            if let report = Self.report(event) { reports.yield(report) }
        }
        // Ends with `stop()`.
        Task { await Self.send(incoming, to: callback) }
    }

    func start() { stream.start() }

    func restart() { stream.restart() }

    func stop() {
        stream.stop()
        reports.finish()
    }

    private static func settings(_ parameters: JSONValue, _ url: URL) -> EventStream.Settings {
        var request = StreamRequest(method: parameters["method"]?.string ?? "GET", url: url)
        for (name, value) in parameters["headers"]?.object?.members ?? [] { request.set(name, value.string) }
        request.body = parameters["body"]?.string.map { Array($0.utf8) }
        var settings = EventStream.Settings(request: request)
        settings.lastEventID = parameters["lastEventId"]?.string
        if let delay = parameters["initialDelayMs"]?.int64 { settings.reconnectDelay = TimeInterval(delay) / 1000 }
        if let limit = parameters["readTimeoutMs"]?.int64, limit > 0 {
            settings.readTimeout = TimeInterval(limit) / 1000
        }
        return settings
    }

    /// nil for what the protocol has no word for.
    private static func report(_ event: EventStream.Event) -> JSONValue? {
        switch event {
        case .event(let event):
            [
                "kind": "event",
                "event": [
                    "type": .string(event.type), "data": .string(event.data), "id": .string(event.lastEventID),
                ],
            ]
        case .comment(let text): ["kind": "comment", "comment": .string(text)]
        case .lost(let reason, let isFailure): isFailure ? ["kind": "error", "comment": .string(reason)] : nil
        }
    }

    /// One after the other, since the harness numbers them.
    private static func send(_ reports: AsyncStream<JSONValue>, to callback: String) async {
        var number = 0
        for await report in reports {
            number += 1
            guard let url = URL(string: "\(callback)/\(number)") else { return }
            let request = TransportRequest(
                url: url, headers: ["Content-Type": "application/json"], body: Data(report.encoded()), timeout: 30)
            do {
                _ = try await NetworkTransport.shared.send(request)
            } catch {
                FileHandle.standardError.write(Data("no answer of \(url): \(error)\n".utf8))
            }
        }
    }
}
