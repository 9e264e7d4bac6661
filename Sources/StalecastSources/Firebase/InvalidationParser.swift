package import StalecastWire

/// One message of Firebase's real-time stream.
package struct Invalidation: Sendable, Hashable {
    /// nil when the message does not say.
    package var version: VersionNumber?
    /// The server asks not to be used: the project has real-time updates switched off.
    package var isDisabled = false
    /// Time to stay away after the stream ended; nil when the server does not say.
    package var retryInterval: Duration?

    package init(version: VersionNumber? = nil, isDisabled: Bool = false, retryInterval: Duration? = nil) {
        (self.version, self.isDisabled, self.retryInterval) = (version, isDisabled, retryInterval)
    }
}

/// Takes the bytes of `:streamFetchInvalidations`, cut anywhere, and gives its messages. Google's exact framing is not
/// documented: what is between the objects (line ends, the brackets and commas of one long array) is skipped, objects
/// are found by their braces outside strings.
package struct InvalidationParser: Sendable {
    /// A message is some hundred bytes; whatever grows beyond this is no stream of invalidations.
    package static let maxMessageBytes = 64 * 1024

    private var objects = JSONObjectScanner(maxBytes: maxMessageBytes)

    package init() {}

    /// - Throws: ``InvalidValue`` when the bytes are no such stream; the connection is then of no use.
    package mutating func receive(_ bytes: some Sequence<UInt8>) throws(InvalidValue) -> [Invalidation] {
        var messages: [Invalidation] = []
        for byte in bytes {
            switch objects.take(byte) {
            case .whole(let object): messages.append(try Self.message(object))
            case .between where !" \t\n\r[,]".utf8.contains(byte):
                throw InvalidValue("the stream has something else than JSON objects")
            default: if objects.isTooLong { throw InvalidValue("a message is larger than 64 KiB") }
            }
        }
        return messages
    }

    private static func message(_ bytes: [UInt8]) throws(InvalidValue) -> Invalidation {
        let json: JSONValue
        do { json = try JSONValue.parse(bytes) } catch {
            throw InvalidValue("a message is not JSON: \(error.description)")
        }
        let version = json["latestTemplateVersionNumber"]?.int64.map { VersionNumber(clamping: $0) }
        let seconds = json["retryIntervalSeconds"]?.int64
        return Invalidation(
            version: version.flatMap { $0 > 0 ? $0 : nil },
            isDisabled: json["featureDisabled"]?.bool ?? (json["featureDisabled"]?.string == "true"),
            retryInterval: seconds.map { .seconds(min(max($0, 0), 3600)) })
    }
}
