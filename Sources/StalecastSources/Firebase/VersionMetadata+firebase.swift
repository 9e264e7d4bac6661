import StalecastWire

extension VersionMetadata {
    /// Reads Firebase's `version` objects, as `:listVersions` lists them and a template carries one: nil unless there is
    /// a positive `versionNumber`. Words of enums that were unknown when this was written become unspecified; a time that
    /// cannot be read becomes `seenAt`.
    ///
    /// - Throws: ``OriginProblem`` for a number above ``VersionNumber/max``.
    static func firebase(_ json: JSONValue?, seenAt: Timestamp) throws(OriginProblem) -> VersionMetadata? {
        guard let json, let number = member("versionNumber", json)?.int64, number > 0 else { return nil }
        guard let number = VersionNumber(exactly: number) else {
            throw OriginProblem(
                .invalidContent,
                "the origin's version \(number) is more than 2^53, which many clients cannot read exactly")
        }
        let rollbackSource = member("rollbackSource", json)?.versionNumber
        return VersionMetadata(
            number: number, updateTime: member("updateTime", json)?.string.flatMap { Timestamp($0) } ?? seenAt,
            updateUser: UpdateUser(json: member("updateUser", json)),
            description: String((json["description"]?.string ?? "").unicodeScalars.prefix(maxDescription)),
            updateOrigin: member("updateOrigin", json)?.string.flatMap { UpdateOrigin(rawValue: $0) } ?? .unspecified,
            updateType: member("updateType", json)?.string.flatMap { UpdateType(rawValue: $0) } ?? .unspecified,
            rollbackSource: rollbackSource.flatMap { $0 > 0 ? $0 : nil })
    }

    /// Firebase's limit, in characters.
    private static let maxDescription = 1024

    /// Servers answer in camelCase; snake_case is what their protocol buffers are written in.
    private static func member(_ name: String, _ json: JSONValue) -> JSONValue? {
        json[name] ?? json[name.snakeCased]
    }
}

extension String {
    fileprivate var snakeCased: String {
        reduce(into: "") { text, letter in
            if letter.isUppercase { text.append("_") }
            text.append(contentsOf: letter.lowercased())
        }
    }
}
