import Crypto
import Foundation

/// Seals what must not be read from a copied database: AES-256-GCM under a key that is kept outside of it. Every
/// sealed text is bound to a place, so that one cannot be moved to another row.
package struct SecretVault: Sendable {
    private let key: SymmetricKey

    package init(key: VaultKey) { self.key = SymmetricKey(data: key.bytes) }

    /// Nonce, ciphertext and tag.
    func seal(_ plain: [UInt8], for place: String) throws -> Data {
        let box = try AES.GCM.seal(plain, using: key, authenticating: Data(place.utf8))
        guard let combined = box.combined else { throw CryptoKitError.incorrectParameterSize }
        return combined
    }

    /// - Throws: `CryptoKitError.authenticationFailure` under another key, for another place, or when it was altered.
    func open(_ sealed: Data, for place: String) throws -> [UInt8] {
        Array(try AES.GCM.open(AES.GCM.SealedBox(combined: sealed), using: key, authenticating: Data(place.utf8)))
    }
}
