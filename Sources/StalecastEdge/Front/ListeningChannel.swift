import NIOCore

/// The Front's own listening socket, when there is no engine.
struct ListeningChannel: Sendable {
    private let channel: any Channel

    static func open(_ front: Front, host: String, port: Int) async throws -> ListeningChannel {
        do {
            return ListeningChannel(channel: try await front.listen(host: host, port: port))
        } catch let error as IOError {
            throw EdgeError.cannotListen(address: "\(host):\(port)", errno: error.errnoCode)
        }
    }

    var port: Int { channel.localAddress?.port ?? 0 }

    func close() async {
        // Closing a listener that is already closed is no news.
        try? await channel.close()
    }
}
