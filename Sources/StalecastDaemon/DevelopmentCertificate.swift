import Crypto
package import Foundation
import StalecastWire

/// A certificate for this machine's own names, and the authority that signed it, for trying TLS out. The authority's
/// key is forgotten at once: not even its owner can certify anything else with it.
package struct DevelopmentCertificate {
    /// PEM.
    package let authority: String
    package let certificate: String
    package let key: String

    /// The most that Mozilla's recommendations allow, in days.
    package static let days = 365

    /// - Parameters:
    ///   - names: DNS names and addresses; `localhost`, 127.0.0.1 and ::1 come with them.
    ///   - now: the moment from which it is valid; an hour earlier counts as well, for clocks that are late.
    package init(names: [String] = [], now: Date = Date()) {
        let validity = DER.sequence([DER.time(now - 3600), DER.time(now + Double(Self.days) * 86_400)])
        let (root, leaf) = (P256.Signing.PrivateKey(), P256.Signing.PrivateKey())
        let issuer = Issuer(
            key: root, name: DER.name("Stalecast development authority \(Self.identifier(root).prefix(4).hexadecimal)"),
            validity: validity)
        authority = issuer.certificate(
            of: issuer.name, key: root,
            extensions: [
                DER.extended("2.5.29.19", isCritical: true, DER.sequence([DER.boolean(true), DER.integer([0])])),
                // keyCertSign.
                DER.extended("2.5.29.15", isCritical: true, [0x03, 0x02, 0x02, 0x04]),
                DER.extended("2.5.29.14", DER.octets(Self.identifier(root))),
            ])
        let places = (names + ["localhost", "127.0.0.1", "::1"]).map { name in
            IPAddress(name).map { DER.tagged(0x87, $0.bytes) } ?? DER.tagged(0x82, Array(name.utf8))
        }
        certificate = issuer.certificate(
            of: DER.name(names.first ?? "localhost"), key: leaf,
            extensions: [
                DER.extended("2.5.29.19", isCritical: true, DER.sequence([])),
                // digitalSignature.
                DER.extended("2.5.29.15", isCritical: true, [0x03, 0x02, 0x07, 0x80]),
                DER.extended("2.5.29.37", DER.sequence([DER.identifier("1.3.6.1.5.5.7.3.1")])),
                DER.extended("2.5.29.17", DER.sequence(places)),
                DER.extended("2.5.29.14", DER.octets(Self.identifier(leaf))),
                DER.extended("2.5.29.35", DER.sequence([DER.tagged(0x80, Self.identifier(root))])),
            ])
        key = leaf.pemRepresentation + "\n"
    }

    private struct Issuer {
        let key: P256.Signing.PrivateKey
        let name: [UInt8]
        let validity: [UInt8]

        /// A certificate of RFC 5280 §4.1, version 3, signed with ECDSA over P-256 and SHA-256, as PEM.
        func certificate(of subject: [UInt8], key: P256.Signing.PrivateKey, extensions: [[UInt8]]) -> String {
            let algorithm = DER.sequence([DER.identifier("1.2.840.10045.4.3.2")])
            var random = SystemRandomNumberGenerator()
            let serial = (0..<16).map { _ in UInt8.random(in: 0...255, using: &random) }
            // Serial numbers are positive, and at most 20 bytes long (RFC 5280 §4.1.2.2).
            let content = DER.sequence([
                DER.tagged(0xA0, DER.integer([2])), DER.integer([0x40 | serial[0] >> 2] + serial.dropFirst()),
                algorithm,
                name, validity, subject, Array(key.publicKey.derRepresentation),
                DER.tagged(0xA3, DER.sequence(extensions)),
            ])
            // A P-256 key signs any bytes.
            guard let signature = try? self.key.signature(for: content) else {
                preconditionFailure("a key that was just made signs")
            }
            let whole = DER.sequence([content, algorithm, DER.tagged(0x03, [0] + Array(signature.derRepresentation))])
            return DevelopmentCertificate.pem(whole)
        }
    }

    private static func identifier(_ key: P256.Signing.PrivateKey) -> [UInt8] {
        Array(SHA256.hash(data: key.publicKey.x963Representation).prefix(20))
    }

    private static func pem(_ bytes: [UInt8]) -> String {
        let text = Data(bytes).base64EncodedString(options: [.lineLength64Characters, .endLineWithLineFeed])
        return "-----BEGIN CERTIFICATE-----\n\(text)\n-----END CERTIFICATE-----\n"
    }
}

/// The few forms of DER (X.690) that a certificate is written in.
enum DER {
    static func tagged(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        var length: [UInt8] = []
        if content.count < 0x80 {
            length = [UInt8(content.count)]
        } else {
            var rest = content.count
            while rest > 0 {
                length.insert(UInt8(rest & 0xFF), at: 0)
                rest >>= 8
            }
            // Long form (X.690 §8.1.3.5): the first byte counts those of the length.
            length.insert(0x80 | UInt8(length.count), at: 0)
        }
        return [tag] + length + content
    }

    static func sequence(_ parts: [[UInt8]]) -> [UInt8] { tagged(0x30, parts.flatMap(\.self)) }
    /// Big-endian, not negative, in as few bytes as can be.
    static func integer(_ bytes: [UInt8]) -> [UInt8] { tagged(0x02, bytes) }
    static func boolean(_ value: Bool) -> [UInt8] { tagged(0x01, [value ? 0xFF : 0]) }
    static func octets(_ bytes: [UInt8]) -> [UInt8] { tagged(0x04, bytes) }

    /// An object identifier, `2.5.29.17`.
    static func identifier(_ text: String) -> [UInt8] {
        let arcs = text.split(separator: ".").compactMap { UInt($0) }
        // One number holds the first two arcs (X.690 §8.19.4).
        var bytes = [UInt8(arcs[0] * 40 + arcs[1])]
        for arc in arcs.dropFirst(2) {
            var groups = [UInt8(arc & 0x7F)]
            var rest = arc >> 7
            while rest > 0 {
                groups.insert(UInt8(rest & 0x7F) | 0x80, at: 0)
                rest >>= 7
            }
            bytes += groups
        }
        return tagged(0x06, bytes)
    }

    /// A distinguished name with nothing but a common name.
    static func name(_ commonName: String) -> [UInt8] {
        sequence([tagged(0x31, sequence([identifier("2.5.4.3"), tagged(0x0C, Array(commonName.utf8))]))])
    }

    static func extended(_ type: String, isCritical: Bool = false, _ value: [UInt8]) -> [UInt8] {
        sequence([identifier(type)] + (isCritical ? [boolean(true)] : []) + [octets(value)])
    }

    /// UTCTime, good until 2049.
    static func time(_ date: Date) -> [UInt8] {
        var seconds = time_t(date.timeIntervalSince1970)
        var parts = tm()
        gmtime_r(&seconds, &parts)
        let numbers = [parts.tm_year % 100, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec]
        let text = numbers.map { $0 < 10 ? "0\($0)" : "\($0)" }.joined() + "Z"
        return tagged(0x17, Array(text.utf8))
    }
}

extension Sequence<UInt8> {
    fileprivate var hexadecimal: String { map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined() }
}
