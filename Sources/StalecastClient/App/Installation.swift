import Foundation
import StalecastWire

/// One app on one device, from its first start to the loss of its cache directory.
struct Installation: Sendable, Equatable, Codable {
    /// A Firebase installation id: 22 characters, `^[cdef][A-Za-z0-9_-]{21}$`.
    var id: String
    /// The first start, to the second.
    var firstOpenTime: Date
    /// User properties that Analytics would know; sent with every fetch.
    @OrEmpty var userProperties: [String: String] = [:]
    /// Topics subscribed to with ``PushMessaging``.
    @OrEmpty var topics: [String] = []
    /// Firebase's proof of the installation; nil where none is needed or none was made yet.
    var token: Token?

    /// A new installation; `id` nil draws one.
    init(id: String?, at now: Date) {
        self.id = id ?? Self.newID()
        firstOpenTime = Date(timeIntervalSince1970: now.timeIntervalSince1970.rounded(.down))
    }

    /// 17 random bytes whose first four bits are 0111, in base64url, cut to 22 characters.
    static func newID() -> String {
        var bytes = (0..<17).map { _ in UInt8.random(in: 0...255) }
        bytes[0] = bytes[0] & 0x0F | 0x70
        return String(Base64URL.encode(bytes).prefix(22))
    }

    /// A token of Firebase Installations and what renews it.
    struct Token: Sendable, Equatable, Codable {
        var text: String
        var refreshToken: String
        var expires: Date
    }
}
