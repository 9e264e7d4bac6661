import StalecastWire

/// RFC 3986 percent encoding. Decoding is strict: every `%` has two hexadecimal digits and the result is UTF-8 with few
/// ``CombiningMarks``.
package enum PercentEncoding {
    /// nil when the encoding is broken.
    ///
    /// - Parameter plusIsBlank: as in queries that forms make.
    package static func decode(_ text: some StringProtocol, plusIsBlank: Bool = false) -> String? {
        decode(bytes: text.utf8, plusIsBlank: plusIsBlank)
    }

    /// nil when the encoding is broken.
    package static func decode(bytes: some Collection<UInt8>, plusIsBlank: Bool = false) -> String? {
        // Most values are plain ASCII.
        let isPlain = bytes.allSatisfy {
            $0 < 0x80 && $0 != UInt8(ascii: "%") && !(plusIsBlank && $0 == UInt8(ascii: "+"))
        }
        if isPlain { return String(decoding: bytes, as: UTF8.self) }
        var decoded: [UInt8] = []
        decoded.reserveCapacity(bytes.count)
        var bytes = bytes.makeIterator()
        while let byte = bytes.next() {
            switch byte {
            case UInt8(ascii: "%"):
                guard let high = bytes.next().flatMap(hexDigit), let low = bytes.next().flatMap(hexDigit)
                else { return nil }
                decoded.append(high << 4 | low)
            case UInt8(ascii: "+") where plusIsBlank: decoded.append(0x20)
            default: decoded.append(byte)
            }
        }
        return String(validating: decoded, as: UTF8.self).flatMap { CombiningMarks.areFew(in: $0) ? $0 : nil }
    }

    /// All but the unreserved characters.
    package static func encode(_ text: String) -> String {
        text.utf8.reduce(into: "") { encoded, byte in
            if byte.isASCIIAlphanumeric || "-._~".utf8.contains(byte) {
                encoded.unicodeScalars.append(Unicode.Scalar(byte))
            } else {
                encoded += (byte < 16 ? "%0" : "%") + String(byte, radix: 16, uppercase: true)
            }
        }
    }

    package static func hexDigit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x30...0x39: byte - 0x30
        case 0x41...0x46: byte - 0x37
        case 0x61...0x66: byte - 0x57
        default: nil
        }
    }
}
