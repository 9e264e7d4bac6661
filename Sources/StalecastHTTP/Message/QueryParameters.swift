package import StalecastWire

/// A request's query. Names may be camelCase or snake_case; unknown names are ignored, as Google does with
/// `$alt`, `alt`, `key`, `quotaUser` and the like. Of a name given twice the last one counts.
package struct QueryParameters: Sendable {
    private var values: [String: String] = [:]
    private var contradictory: Set<String> = []
    /// Number of parameters after which the rest is ignored; no operation has a tenth of it.
    private static let maxParameters = 256

    package init(_ query: some StringProtocol = "") {
        if query.isEmpty { return }
        // Bytes, since characters cost half a millisecond for each KB of a stranger's query.
        let pairs = query.utf8.split(separator: UInt8(ascii: "&"), maxSplits: Self.maxParameters)
        for pair in pairs.prefix(Self.maxParameters) {
            let parts = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = PercentEncoding.decode(bytes: parts[0], plusIsBlank: true),
                let value = parts.count > 1 ? PercentEncoding.decode(bytes: parts[1], plusIsBlank: true) : ""
            else { continue }
            let key = Self.camelCase(name)
            if let other = values.updateValue(value, forKey: key), other != value { contradictory.insert(key) }
        }
    }

    /// The parameter's text, nil when absent or empty: protobuf's JSON mapping knows no difference.
    package subscript(name: String) -> String? {
        guard let value = values[name], !value.isEmpty else { return nil }
        return value
    }

    /// - Throws: 400 unless absent (`false`), `true` or `false`, and for the name in another spelling: a misspelt dry run
    ///   must not publish.
    package func flag(_ name: String) throws(GoogleError) -> Bool {
        try refuseOtherSpellings(of: name)
        return switch values[name]?.lowercased() {
        case nil, "false", "0": false
        case "true", "1": true
        case .some: throw .invalidArgument("\(name) must be true or false")
        }
    }

    /// - Throws: 400 when the parameter is there and is no integer.
    package func integer(_ name: String) throws(GoogleError) -> Int64? {
        guard let text = values[name] else { return nil }
        guard let number = Int64(text) else { throw .invalidArgument("\(name) must be an integer") }
        return number
    }

    /// - Throws: 400 when the parameter is there and is no positive integer.
    package func versionNumber(_ name: String) throws(GoogleError) -> VersionNumber? {
        guard let number = try integer(name) else { return nil }
        guard number > 0 else { throw .invalidArgument("\(name) must be greater than 0") }
        return VersionNumber(clamping: number)
    }

    /// - Throws: 400 when the parameter is there and is not RFC 3339.
    package func timestamp(_ name: String) throws(GoogleError) -> Timestamp? {
        guard let text = self[name] else { return nil }
        guard let time = Timestamp(text) else {
            throw .invalidArgument("\(name) must be a time as RFC 3339 spells it, for example 2026-08-20T14:05:09Z")
        }
        return time
    }

    /// Like ``timestamp(_:)``, but 400 also when it is empty, and for the name in another spelling: what should wait must
    /// not happen now.
    package func decisiveTimestamp(_ name: String) throws(GoogleError) -> Timestamp? {
        try refuseOtherSpellings(of: name)
        if values[name]?.isEmpty == true { throw .invalidArgument("\(name) is empty; leave it out, or give a time") }
        return try timestamp(name)
    }

    private func refuseOtherSpellings(of name: String) throws(GoogleError) {
        if contradictory.contains(name) { throw .invalidArgument("\(name) is given twice, with different values") }
        if let near = values.keys.first(where: { $0 != name && Self.plain($0) == Self.plain(name) }) {
            throw .invalidArgument("\(near) is no parameter; write \(name)")
        }
    }

    private static func plain(_ name: String) -> String {
        String(decoding: name.utf8.filter(\.isASCIIAlphanumeric), as: UTF8.self).lowercased()
    }

    private static func camelCase(_ name: String) -> String {
        guard name.utf8.contains(UInt8(ascii: "_")) else { return name }
        guard let start = name.utf8.firstIndex(where: { $0 != UInt8(ascii: "_") }) else { return name }
        var camel: [UInt8] = []
        camel.reserveCapacity(name.utf8.count)
        var isAfterBar = false
        for byte in name.utf8[start...] {
            let isBar = byte == UInt8(ascii: "_")
            if !isBar { camel.append(isAfterBar && (0x61...0x7A).contains(byte) ? byte & 0xDF : byte) }
            isAfterBar = isBar
        }
        return String(decoding: camel, as: UTF8.self)
    }
}
