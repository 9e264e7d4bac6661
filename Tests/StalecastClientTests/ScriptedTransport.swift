import Foundation
import StalecastClient
import Synchronization

/// A remote server played by a closure; remembers what it was asked.
final class ScriptedTransport: HTTPTransport {
    private let requests = Mutex<[TransportRequest]>([])
    private let answer: @Sendable (TransportRequest, Int) async throws -> TransportResponse

    /// - Parameter answer: gets the request and how many came before it.
    init(_ answer: @escaping @Sendable (TransportRequest, Int) async throws -> TransportResponse) {
        self.answer = answer
    }

    var received: [TransportRequest] { requests.withLock { $0 } }

    func send(_ request: TransportRequest) async throws -> TransportResponse {
        let before = requests.withLock { requests in
            requests.append(request)
            return requests.count - 1
        }
        return try await answer(request, before)
    }
}

extension TransportResponse {
    /// An answer with a JSON body.
    static func json(_ text: String, status: Int = 200, etag: String? = "etag-1-firebase-fetch-1") -> TransportResponse
    {
        var headers = ["Content-Type": "application/json"]
        headers["ETag"] = etag
        return TransportResponse(status: status, headers: headers, body: Data(text.utf8))
    }
}

/// Updates that a listener got, in order.
final class Heard: Sendable {
    private let state = Mutex<(updates: [Set<String>], errors: [RemoteConfigUpdateError])>(([], []))

    var updates: [Set<String>] { state.withLock { $0.updates } }
    var errors: [RemoteConfigUpdateError.Code] { state.withLock { $0.errors.map(\.code) } }

    func hear(keys: Set<String>) {
        state.withLock { $0.updates.append(keys) }
    }

    func hear(_ update: RemoteConfigUpdate?, _ error: (any Error)?) {
        state.withLock { state in
            if let update { state.updates.append(update.updatedKeys) }
            if let error = error as? RemoteConfigUpdateError { state.errors.append(error) }
        }
    }
}

/// Model of an app: its listener owns the model, and the model's end removes the listener.
final class Model: @unchecked Sendable {
    var registration: ConfigUpdateListenerRegistration?
    private let ended: @Sendable () -> Void

    init(_ ended: @escaping @Sendable () -> Void) { self.ended = ended }

    func changed() {}

    deinit {
        registration?.remove()
        ended()
    }
}
