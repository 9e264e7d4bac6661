package import StalecastHTTP
import StalecastHub
import StalecastWire

/// Context of a LaunchDarkly SDK: of one kind, of several, or a user as older SDKs have it.
///
/// Attributes are what conditions look at, as in OpenFeature's context. Of several kinds one is the client: `user`, else
/// the first by name. Attributes of the others carry their kind, such as `device.model`.
package struct LaunchDarklyContext {
    /// The client's key; in percentages and releases the instance's id.
    package let key: String
    package let fields: FlagFields
    /// nil where the key cannot be counted as a client.
    let client: ClientIdentity?

    /// Nesting of a context's JSON.
    private static let maxDepth = 32
    private static let maxKindBytes = 64

    /// Reads a context from a path.
    ///
    /// - Parameter text: base64 in its URL alphabet, with or without padding.
    /// - Throws: 400.
    package init(base64 text: String) throws(GoogleError) {
        var letters = Substring(text).utf8
        for _ in 0..<2 where letters.last == UInt8(ascii: "=") { letters.removeLast() }
        guard let bytes = Base64URL.decode(letters) else {
            throw .invalidArgument("the context in the path is no base64 of the URL alphabet")
        }
        try self.init(bytes)
    }

    /// Reads a context as JSON.
    ///
    /// - Throws: 400.
    package init(_ bytes: [UInt8]) throws(GoogleError) {
        let json: JSONValue
        do { json = try JSONValue.parse(bytes, maxDepth: Self.maxDepth) } catch {
            throw .invalidArgument("the context is no JSON: \(error.description)")
        }
        guard let object = json.object else { throw .invalidArgument("the context must be a JSON object") }
        let kinds = try Self.kinds(object)
        guard let primary = kinds.first(where: { $0.name == "user" }) ?? kinds.first else {
            throw .invalidArgument("a context of several kinds needs one at least")
        }
        var attributes: [(name: String, value: JSONValue)] = []
        for kind in kinds {
            _ = try Self.key(of: kind)
            let isPrimary = kind.name == primary.name
            guard attributes.count + kind.attributes.count <= FetchRequest.maxAttributes else {
                throw .invalidArgument("a context has at most \(FetchRequest.maxAttributes) attributes")
            }
            for (name, value) in kind.attributes.members where name != "_meta" && !(isPrimary && name == "key") {
                attributes.append((isPrimary ? name : "\(kind.name).\(name)", value))
            }
        }
        key = try Self.key(of: primary)
        fields = FlagFields(attributes, id: key)
        client = ClientIdentity(key, sdk: "launchdarkly")
    }

    private typealias Kind = (name: String, attributes: JSONObject)

    private static func kinds(_ object: JSONObject) throws(GoogleError) -> [Kind] {
        var attributes = object
        attributes["kind"] = nil
        guard let kind = object["kind"], !kind.isNull else { return [("user", user(attributes))] }
        guard let name = kind.string, isKind(name) else { throw .noKind }
        guard name == "multi" else { return [(name, attributes)] }
        var kinds: [Kind] = []
        for (name, value) in attributes.members.sorted(by: { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }) {
            guard isKind(name), name != "multi" else { throw .noKind }
            guard let attributes = value.object else {
                throw .invalidArgument("each kind of a context of several is an object with a key")
            }
            kinds.append((name, attributes))
        }
        return kinds
    }

    private static func isKind(_ name: String) -> Bool {
        (1...maxKindBytes).contains(name.utf8.count) && name != "kind"
            && name.utf8.allSatisfy { $0.isASCIIAlphanumeric || "._-".utf8.contains($0) }
    }

    /// Attributes of a user as older SDKs have it: its own are beside the built-in ones.
    private static func user(_ attributes: JSONObject) -> JSONObject {
        var user = attributes
        user["custom"] = nil
        user["privateAttributeNames"] = nil
        for (name, value) in attributes["custom"]?.object?.members ?? [] where user[name] == nil { user[name] = value }
        return user
    }

    private static func key(of kind: Kind) throws(GoogleError) -> String {
        guard let key = kind.attributes["key"].flatMap(FetchFields.text), !key.isEmpty else {
            throw .invalidArgument("a context needs a key, a text that is not empty")
        }
        return key
    }
}

extension GoogleError {
    fileprivate static let noKind = GoogleError.invalidArgument(
        "the kind of a context is 1 to 64 characters of A-Z a-z 0-9 . _ -, such as user")
}
