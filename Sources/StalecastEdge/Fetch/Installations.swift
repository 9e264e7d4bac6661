import StalecastHTTP
import StalecastWire

/// The part of Firebase Installations without which no SDK fetches. Nothing is kept: any installation is known, and
/// tokens have no meaning.
enum Installations {
    /// A token's life, one week: SDKs renew it when less than an hour is left.
    private static let expiresIn: JSONValue = "604800s"

    /// `POST installations`: the client's FID if it is one, else a new one, which the client adopts.
    static func create(_ body: JSONObject, projectNumber: UInt64) -> JSONValue {
        let proposed = body["fid"]?.string ?? ""
        let fid = isFID(proposed) ? proposed : newFID()
        return [
            "name": .string("projects/\(projectNumber)/installations/\(fid)"), "fid": .string(fid),
            "refreshToken": .string("2_" + randomText(bytes: 48)), "authToken": token(),
        ]
    }

    /// `POST installations/{fid}/authTokens:generate` and the member `authToken`.
    static func token() -> JSONValue { ["token": .string(randomText(bytes: 48)), "expiresIn": expiresIn] }

    /// Checks the proofs of token and delete requests: a known FID and a refresh token.
    ///
    /// - Throws: 404 or 401, to both of which SDKs reply by making a new installation.
    static func check(fid: String, authorization: String?) throws(GoogleError) {
        guard isFID(fid) else { throw GoogleError(404, "no such installation") }
        guard let authorization, authorization.hasPrefix("FIS_v2 "), authorization.utf8.count > 7 else {
            throw GoogleError(401, "send Authorization: FIS_v2 and the refresh token")
        }
    }

    /// `^[cdef][A-Za-z0-9_-]{21}$`: 17 bytes whose first four bits are 0111, in base64url, cut to 22 characters.
    static func isFID(_ text: String) -> Bool {
        guard text.utf8.count == 22, let first = text.utf8.first, "cdef".utf8.contains(first) else { return false }
        return text.utf8.allSatisfy { $0.isASCIIAlphanumeric || $0 == UInt8(ascii: "_") || $0 == UInt8(ascii: "-") }
    }

    private static func newFID() -> String {
        var bytes = randomBytes(17)
        bytes[0] = bytes[0] & 0x0F | 0x70
        return String(Base64URL.encode(bytes).prefix(22))
    }

    private static func randomText(bytes count: Int) -> String { Base64URL.encode(randomBytes(count)) }

    private static func randomBytes(_ count: Int) -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        return (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
    }
}
