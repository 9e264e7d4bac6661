import CNIOBoringSSL

/// Parts that all ``TLSRecords`` of one thread share: a cipher that is keyed for each record anew, and room for one
/// record. Confined to its thread.
package final class TLSRecordCipher {
    /// Most bytes of a record's plain text, and of a record that comes in, with its header (RFC 8446 §5.1, §5.2).
    package static let maxText = 16_384
    static let maxRecord = headerBytes + maxText + 256
    private static let headerBytes = 5
    private static let tagBytes = 16

    enum Content: UInt8 { case alert = 21, handshake, applicationData }

    /// The record that is sealed, or came in; and a KeyUpdate before it.
    package let record = UnsafeMutableRawPointer.allocate(byteCount: maxRecord + 32, alignment: 16)
    private let cipher = UnsafeMutablePointer<EVP_AEAD_CTX>.allocate(capacity: 1)

    package init() { EVP_AEAD_CTX_zero(cipher) }

    deinit {
        EVP_AEAD_CTX_cleanup(cipher)
        cipher.deallocate()
        record.deallocate()
    }

    /// Seals a record into ``record``, from `offset` on.
    ///
    /// - Returns: its length with the header; 0 when the cipher fails.
    func seal(_ type: Content, _ bytes: UnsafeRawPointer, _ count: Int, at offset: Int, _ key: RecordKey) -> Int {
        let header = record + offset
        // The type is sealed behind the text; the header always claims application data (RFC 8446 §5.2).
        let length = count + 1 + Self.tagBytes
        header.storeBytes(of: Content.applicationData.rawValue, as: UInt8.self)
        header.storeBytes(of: UInt16(0x0303).bigEndian, toByteOffset: 1, as: UInt16.self)
        header.storeBytes(of: UInt16(length).bigEndian, toByteOffset: 3, as: UInt16.self)
        var (type, tail) = (type.rawValue, 0)
        let isSealed = with(key) { nonce in
            let text = header.assumingMemoryBound(to: UInt8.self) + Self.headerBytes
            return EVP_AEAD_CTX_seal_scatter(
                cipher, text, text + count, &tail, 1 + Self.tagBytes, nonce, Suite.ivBytes,
                bytes.assumingMemoryBound(to: UInt8.self), count, &type, 1,
                header.assumingMemoryBound(to: UInt8.self), Self.headerBytes)
        }
        return isSealed ? Self.headerBytes + length : 0
    }

    /// Length of the record that came in, with its header, when `count` bytes of it are there. 0 while too few are there
    /// to tell; nil for a record that no client may send here.
    func recordLength(_ count: Int) -> Int? {
        guard count >= Self.headerBytes else { return 0 }
        let header = UnsafeRawBufferPointer(start: record, count: Self.headerBytes)
        let length = Self.headerBytes + Int(header[3]) << 8 + Int(header[4])
        guard header[0] == Content.applicationData.rawValue, header[1] == 3, header[2] == 3,
            (Self.headerBytes + 1 + Self.tagBytes...Self.maxRecord).contains(length)
        else { return nil }
        return length
    }

    /// Opens the record that came in where it lies; nil when it is not the client's.
    func open(_ length: Int, _ key: RecordKey) -> (type: Content, text: UnsafeRawBufferPointer)? {
        var count = 0
        let header = record.assumingMemoryBound(to: UInt8.self)
        let text = header + Self.headerBytes
        let isOpened = with(key) { nonce in
            EVP_AEAD_CTX_open(
                cipher, text, &count, length - Self.headerBytes, nonce, Suite.ivBytes, text, length - Self.headerBytes,
                header, Self.headerBytes)
        }
        guard isOpened else { return nil }
        // Zeros after the type are padding.
        while count > 0, text[count - 1] == 0 { count -= 1 }
        guard count > 0, count - 1 <= Self.maxText, let type = Content(rawValue: text[count - 1]) else { return nil }
        return (type, UnsafeRawBufferPointer(start: text, count: count - 1))
    }

    /// Keys the cipher for one record, whose nonce is the IV with its number xored in (RFC 8446 §5.3).
    private func with(_ key: RecordKey, _ body: (UnsafePointer<UInt8>) -> Int32) -> Bool {
        let (suite, bytes) = (key.suite, key.bytes.assumingMemoryBound(to: UInt8.self))
        guard EVP_AEAD_CTX_init(cipher, suite.aead, bytes, suite.keyBytes, Self.tagBytes, nil) == 1 else {
            ERR_clear_error()
            return false
        }
        defer { EVP_AEAD_CTX_cleanup(cipher) }
        let isDone = withUnsafeTemporaryAllocation(of: UInt8.self, capacity: Suite.ivBytes) { nonce in
            UnsafeMutableRawPointer(nonce.baseAddress!).copyMemory(from: key.iv, byteCount: Suite.ivBytes)
            // The sequence number has 64 bits; the upper half is zero here.
            for place in 0..<4 {
                nonce[Suite.ivBytes - 1 - place] ^= UInt8(truncatingIfNeeded: key.number >> (8 * place))
            }
            return body(nonce.baseAddress!) == 1
        }
        if !isDone { ERR_clear_error() }
        return isDone
    }
}

struct RecordKey {
    let suite: Suite
    let bytes: UnsafeRawPointer
    let iv: UnsafeRawPointer
    let number: UInt32
}

/// The cipher suites of TLS 1.3 that BoringSSL has, by their number.
enum Suite: UInt16 {
    case aes128 = 0x1301, aes256, chaCha20

    static let ivBytes = 12
    static let maxSecretBytes = 48

    /// Bytes of the secret, and of the hash.
    var secretBytes: Int { self == .aes256 ? 48 : 32 }
    var keyBytes: Int { self == .aes128 ? 16 : 32 }

    var aead: OpaquePointer? {
        switch self {
        case .aes128: EVP_aead_aes_128_gcm()
        case .aes256: EVP_aead_aes_256_gcm()
        case .chaCha20: EVP_aead_chacha20_poly1305()
        }
    }

    /// HKDF-Expand-Label without a context (RFC 8446 §7.1).
    func expand(_ secret: UnsafeRawPointer, _ label: String, into out: UnsafeMutableRawPointer, _ count: Int) {
        let name = Array("tls13 \(label)".utf8)
        let text = [UInt8(count >> 8), UInt8(count & 255), UInt8(name.count)] + name + [0]
        let isDone = HKDF_expand(
            out.assumingMemoryBound(to: UInt8.self), count, self == .aes256 ? EVP_sha384() : EVP_sha256(),
            secret.assumingMemoryBound(to: UInt8.self), secretBytes, text, text.count)
        precondition(isDone == 1, "HKDF gives no more than 255 hashes, and no memory is left")
    }
}
