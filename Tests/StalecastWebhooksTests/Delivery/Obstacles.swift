import Foundation
import GRDB

/// A port that takes connections and never says anything.
struct SilentPort {
    let port: Int

    static var shared: SilentPort { get throws { try made.get() } }
    private static let made = Result { SilentPort(port: try ownPort(listens: true)) }
}

/// A port without a listener, which no other test's server can get.
struct ClosedPort {
    let port: Int

    static var shared: ClosedPort { get throws { try made.get() } }
    private static let made = Result { ClosedPort(port: try ownPort(listens: false)) }
}

private struct CannotListen: Error {}

/// A port of 127.0.0.1 that is this process's until it ends.
private func ownPort(listens: Bool) throws -> Int {
    let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let isBound = withUnsafeMutablePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            bind(listener, $0, length) == 0 && (!listens || listen(listener, 1024) == 0)
                && getsockname(listener, $0, &length) == 0
        }
    }
    guard isBound else { throw CannotListen() }
    return Int(UInt16(bigEndian: address.sin_port))
}

/// Transaction of another process, which keeps all others from writing.
final class DatabaseLock {
    private let queue: DatabaseQueue

    init(_ path: String) throws {
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        queue = try DatabaseQueue(path: path, configuration: configuration)
        try queue.inDatabase { try $0.execute(sql: "BEGIN EXCLUSIVE") }
    }

    func release() {
        // Closing ends the transaction as well.
        try? queue.inDatabase { try $0.execute(sql: "ROLLBACK") }
    }
}
