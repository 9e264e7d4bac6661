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
        self.version = version
        self.isDisabled = isDisabled
        self.retryInterval = retryInterval
    }
}

/// Takes the bytes of `:streamFetchInvalidations`, cut anywhere, and gives its messages. Google's exact framing is not
/// documented: what is between the objects (line ends, the brackets and commas of one long array) is skipped, objects
/// are found by their braces outside strings.
package struct InvalidationParser: Sendable {
    /// A message is some hundred bytes; whatever grows beyond this is no stream of invalidations.
    package static let maxMessageBytes = 64 * 1024

    private var object: [UInt8] = []
    private var depth = 0
    private var isInString = false
    private var isEscaped = false

    package init() {}

    /// - Throws: ``InvalidationParser/Failure`` when the bytes are no such stream; the connection is then of no use.
    package mutating func receive(_ bytes: some Sequence<UInt8>) throws(Failure) -> [Invalidation] {
        var messages: [Invalidation] = []
        for byte in bytes {
            guard try take(byte) else { continue }
            messages.append(try Self.message(object))
            object.removeAll(keepingCapacity: true)
        }
        return messages
    }

    /// - Returns: whether `object` is complete.
    private mutating func take(_ byte: UInt8) throws(Failure) -> Bool {
        if depth == 0 { return try begin(byte) }
        object.append(byte)
        if object.count > Self.maxMessageBytes { throw Failure("a message is larger than 64 KiB") }
        switch byte {
        case _ where isEscaped: isEscaped = false
        case UInt8(ascii: "\\") where isInString: isEscaped = true
        case UInt8(ascii: "\"") where isInString: isInString = false
        case _ where isInString: break
        case UInt8(ascii: "\""): isInString = true
        case UInt8(ascii: "{"): depth += 1
        case UInt8(ascii: "}"): depth -= 1
        default: break
        }
        return depth == 0
    }

    private mutating func begin(_ byte: UInt8) throws(Failure) -> Bool {
        switch byte {
        case UInt8(ascii: "{"):
            depth = 1
            object.append(byte)
        case 0x20, 0x09, 0x0A, 0x0D, UInt8(ascii: "["), UInt8(ascii: ","), UInt8(ascii: "]"): break
        default: throw Failure("the stream has something else than JSON objects")
        }
        return false
    }

    private static func message(_ bytes: [UInt8]) throws(Failure) -> Invalidation {
        let json: JSONValue
        do { json = try JSONValue.parse(bytes) } catch {
            throw Failure("a message is not JSON: \(error.description)")
        }
        let version = json["latestTemplateVersionNumber"]?.int64.map { VersionNumber(clamping: $0) }
        let seconds = json["retryIntervalSeconds"]?.int64
        return Invalidation(
            version: version.flatMap { $0 > 0 ? $0 : nil },
            isDisabled: json["featureDisabled"]?.bool ?? (json["featureDisabled"]?.string == "true"),
            retryInterval: seconds.map { .seconds(min(max($0, 0), 3600)) })
    }

    /// Why a stream is no stream of invalidations.
    package struct Failure: Error, Hashable, CustomStringConvertible {
        package let description: String

        init(_ description: String) { self.description = description }
    }
}
