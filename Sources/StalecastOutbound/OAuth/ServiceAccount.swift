package import CryptoExtras
import StalecastWire

/// A service account's key file as Google's console hands it out, kept in memory.
package struct ServiceAccount: Sendable {
    /// `project_id`; nil when the file names none.
    package let projectID: String?
    /// `client_email`, who the tokens speak for.
    package let email: String
    /// `private_key_id`; nil when the file names none.
    package let keyID: String?
    /// `token_uri`, where tokens are asked for; Google's when the file names none.
    package let tokenURL: OutboundURL
    /// `private_key`, RSA of at least 2,048 bits.
    package let key: _RSA.Signing.PrivateKey

    /// Google's token endpoint.
    package static let googleTokenURL = "https://oauth2.googleapis.com/token"
    private static let maxBytes = 64 << 10

    /// - Parameter path: the JSON key file, at most 64 KiB.
    /// - Throws: ``ServiceAccount/Invalid`` that says what is wrong with the file.
    package init(contentsOf path: String) throws(Invalid) {
        let file: LocalFile
        do { file = try LocalFile(path: path, maxBytes: Self.maxBytes) } catch {
            throw Invalid(error.description)
        }
        guard case .object(let members)? = try? JSONValue.parse(file.bytes) else {
            throw Invalid("\(path) is no JSON object; it must be a service account's key file")
        }
        if case .string(let type)? = members["type"], type != "service_account" {
            throw Invalid("\(path) is of type \"\(type.prefix(40))\"; a service_account's key is needed")
        }
        projectID = members.text("project_id")
        keyID = members.text("private_key_id")
        email = try members.required("client_email", in: path)
        let pem = try members.required("private_key", in: path)
        do {
            tokenURL = try OutboundURL(members.text("token_uri") ?? Self.googleTokenURL)
        } catch {
            throw Invalid("token_uri in \(path) \(error)")
        }
        do {
            key = try _RSA.Signing.PrivateKey(pemRepresentation: pem)
        } catch {
            // The error's own words are not repeated: they could quote the key.
            throw Invalid("private_key in \(path) is no RSA key of at least 2048 bits in PEM form")
        }
    }

    /// Reason why a key file is of no use.
    package struct Invalid: Error, CustomStringConvertible {
        package let description: String

        init(_ description: String) { self.description = description }
    }
}

extension JSONObject {
    fileprivate func text(_ name: String) -> String? {
        guard case .string(let text)? = self[name], !text.isEmpty else { return nil }
        return text
    }

    fileprivate func required(_ name: String, in path: String) throws(ServiceAccount.Invalid) -> String {
        guard let text = text(name) else {
            throw ServiceAccount.Invalid("\(path) has no \"\(name)\"; it must be a service account's key file")
        }
        return text
    }
}
