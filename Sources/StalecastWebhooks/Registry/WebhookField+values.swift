import StalecastOutbound
import StalecastWire

extension WebhookField {
    func text(_ value: JSONValue) throws(RegistryProblem) -> String {
        guard let text = value.string else { throw problem("must be a string, not \(value.kind)") }
        return text
    }

    func flag(_ value: JSONValue) throws(RegistryProblem) -> Bool {
        guard let flag = value.bool else { throw problem("must be true or false, not \(value.kind)") }
        return flag
    }

    func choice<Value: RawRepresentable<String> & CaseIterable>(
        _ value: JSONValue?
    ) throws(RegistryProblem) -> Value? {
        guard let value else { return nil }
        if let choice = Value(rawValue: try text(value)) { return choice }
        throw problem("must be one of \(Value.allCases.map(\.rawValue).joined(separator: ", "))")
    }

    func deliveryMode(_ value: JSONValue) throws(RegistryProblem) -> DeliveryMode {
        if let mode = DeliveryMode(name: try text(value)) { return mode }
        throw problem("must be one of \(DeliveryMode.allCases.map(\.name).joined(separator: ", "))")
    }

    func descriptionText(_ value: JSONValue) throws(RegistryProblem) -> String {
        let text = try text(value)
        guard text.count <= Self.maxDescription else { throw problem("has at most \(Self.maxDescription) characters") }
        return text
    }

    func outboundURL(_ value: JSONValue) throws(RegistryProblem) -> OutboundURL {
        let text = try text(value)
        do { return try OutboundURL(text) } catch { throw problem("\(error)") }
    }

    func topicNames(_ value: JSONValue) throws(RegistryProblem) -> [TopicName] {
        guard let elements = value.array else { throw problem("must be a list of topic names, not \(value.kind)") }
        guard (1...Self.maxTopics).contains(elements.count) else {
            throw problem("has 1 to \(Self.maxTopics) topics; leave it out for [\"PUSH_RC\"]")
        }
        var topics: [TopicName] = []
        for (position, element) in elements.enumerated() {
            guard let text = element.string else { throw problem("must be a string", at: "[\(position)]") }
            do { topics.append(try TopicName(text)) } catch { throw problem("\(error)", at: "[\(position)]") }
            if topics.dropLast().contains(topics[position]) {
                throw problem("\(topics[position]) is there already", at: "[\(position)]")
            }
        }
        return topics
    }

    func rate(_ value: JSONValue) throws(RegistryProblem) -> Double {
        guard case .number(let text) = value, let rate = Double(text), WebhookLimits.perSecondRange.contains(rate)
        else {
            throw problem("must be a number from 0.001 to 1000: attempts per second")
        }
        return rate
    }

    /// Protobuf's JSON form of a duration: decimal seconds and `s`, for example `15s` or `0.5s`.
    func duration(
        _ value: JSONValue?, _ range: ClosedRange<Duration>
    ) throws(RegistryProblem) -> Duration? {
        guard let value else { return nil }
        let limits = "\(range.lowerBound.wireText) to \(range.upperBound.wireText)"
        guard let duration = value.string.flatMap(Duration.init(wireText:)) else {
            throw problem("must be a duration in seconds such as \"15s\" or \"0.5s\", \(limits)")
        }
        guard range.contains(duration) else { throw problem("is out of range: \(limits)") }
        return duration
    }

    func file(_ value: JSONValue?, _ files: FileNames) throws(RegistryProblem) -> String? {
        guard let value else { return nil }
        let name = try text(value)
        if name.isEmpty { return nil }
        guard !name.utf8.contains(0) else { throw problem("a file name cannot contain NUL") }
        guard case .within(let directory) = files else { return name }
        guard let directory else {
            throw problem("the daemon has no directory for such files; set webhooks.filesDirectory")
        }
        // What is stored comes back in answers and may come in again with an update.
        let plain = name.hasPrefix(directory + "/") ? String(name.dropFirst(directory.count + 1)) : name
        guard !plain.contains("/"), plain != ".", plain != ".." else {
            throw problem("must be the name of a file in the directory webhooks.filesDirectory, without a slash")
        }
        return "\(directory)/\(plain)"
    }

    /// Stands for a value that is not shown; in an update it keeps the value there is.
    static let hiddenValue = "(hidden)"

    /// - Parameter keeping: the headers so far, for values sent back as ``hiddenValue``. Rows and the configuration file
    ///   hide nothing, and keep nothing.
    func headers(
        _ value: JSONValue?, keeping: [OutboundHeader], _ files: FileNames
    ) throws(RegistryProblem) -> [OutboundHeader] {
        guard let value else { return [] }
        guard let object = value.object else { throw problem("must be an object of names and values") }
        guard object.count <= ReservedHeaders.maxCount else {
            throw problem("has at most \(ReservedHeaders.maxCount) headers")
        }
        var headers: [OutboundHeader] = []
        var names: Set<String> = []
        for (name, value) in object.members {
            guard var text = value.string else { throw problem("must be a string", at: "[\(name.prefix(80))]") }
            if text == Self.hiddenValue, case .within = files {
                guard let kept = keeping.first(where: { $0.name.lowercased() == name.lowercased() }) else {
                    throw problem(
                        "\(Self.hiddenValue) stands for the value there is, and there is none; give the value",
                        at: "[\(name.prefix(80))]")
                }
                text = kept.value
            }
            headers.append(try header(name, text))
            guard names.insert(name.lowercased()).inserted else {
                throw problem("is there twice", at: "[\(name.prefix(80))]")
            }
        }
        return headers
    }

    func header(_ name: String, _ value: String) throws(RegistryProblem) -> OutboundHeader {
        let place = "[\(name.prefix(80))]"
        let header: OutboundHeader
        do { header = try OutboundHeader(name, value) } catch { throw problem("\(error)", at: place) }
        // Asked of a name that is one: the sentence repeats it.
        if ReservedHeaders.contains(name) { throw problem("the header \(name) is set by the daemon itself", at: place) }
        return header
    }
}

extension Duration {
    /// `15s`, `0.25s`: protobuf's JSON form, as short as it is exact to the microsecond.
    package var wireText: String {
        let (seconds, attoseconds) = components
        let fraction = attoseconds / 1_000_000_000_000
        guard fraction != 0 else { return "\(seconds)s" }
        var digits = String(fraction)
        digits = String(repeating: "0", count: 6 - digits.count) + digits
        while digits.last == "0" { digits.removeLast() }
        return "\(seconds).\(digits)s"
    }

    /// nil unless `text` is decimal seconds with at most nine fractional digits and `s`.
    package init?(wireText text: String) {
        guard text.last == "s" else { return nil }
        let parts = text.dropLast().split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
        guard let seconds = Self.digits(parts[0], atMost: 12) else { return nil }
        var nanoseconds: Int64 = 0
        if parts.count == 2 {
            guard let fraction = Self.digits(parts[1], atMost: 9) else { return nil }
            nanoseconds = fraction
            for _ in parts[1].count..<9 { nanoseconds *= 10 }
        }
        self = .seconds(seconds) + .nanoseconds(nanoseconds)
    }

    private static func digits(_ text: Substring, atMost count: Int) -> Int64? {
        guard (1...count).contains(text.utf8.count), text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            return nil
        }
        return Int64(text)
    }
}
