import StalecastTemplate
package import StalecastWire

extension ReleasePolicy {
    /// Reads a policy from configuration or a request. A member that is left out has its default.
    package init(json: JSONValue) throws(InvalidValue) { self = try Reader(isStored: false).policy(json) }

    /// Reads a policy from a record: passes over what a newer program added.
    init(stored json: JSONValue) throws(InvalidValue) { self = try Reader(isStored: true).policy(json) }

    package static let members = ["stages", "every", "bake", "first", "anonymous", "gates", "onTooLittle"]

    package var json: JSONValue {
        [
            "stages": .array(stages.map { .string(Percentage.text($0)) }), "every": .string(every.spelled),
            "bake": .string(bake.spelled), "first": .array(first.map(JSONValue.string)),
            "anonymous": .string(anonymous.rawValue), "gates": gates.json, "onTooLittle": .string(onTooLittle.rawValue),
        ]
    }
}

extension ReleasePolicy.Gates {
    fileprivate var json: JSONValue {
        [
            "failed": json(failed), "silent": json(silent), "fetchErrors": json(fetchErrors),
            "loss": json(loss, as: "margin", return: lossReturn),
            "prometheus": prometheus.map { gate in
                [
                    "url": .string(gate.url), "query": .string(gate.query), "limit": .double(gate.limit),
                    "onTrip": .string(gate.onTrip.rawValue),
                ]
            } ?? "off",
            "url": url.map { ["url": .string($0.url), "onTrip": .string($0.onTrip.rawValue)] } ?? "off",
        ]
    }

    private func json(
        _ gate: ReleasePolicy.Gate?, as limit: String = "limit", return time: Duration? = nil
    ) -> JSONValue {
        guard let gate else { return "off" }
        return [
            limit: .string(Percentage.text(gate.limit)), "return": time.map { .string($0.spelled) },
            "onTrip": .string(gate.onTrip.rawValue),
        ]
    }
}

/// Reads the members of a policy and names the first that is wrong.
private struct Reader {
    let isStored: Bool

    func policy(_ json: JSONValue) throws(InvalidValue) -> ReleasePolicy {
        var policy = ReleasePolicy()
        for (name, value) in try members(json, ReleasePolicy.members, of: "the policy") {
            switch name {
            case "stages": policy.stages = try stages(value)
            case "every": policy.every = try duration(value, in: ReleasePolicy.times, at: name)
            case "bake": policy.bake = try duration(value, in: ReleasePolicy.times, at: name)
            case "first": policy.first = try names(value)
            case "anonymous": policy.anonymous = try choice(value, stored: .last, at: name)
            case "gates": policy.gates = try gates(value)
            default: policy.onTooLittle = try choice(value, stored: .hold, at: name)
            }
        }
        return policy
    }

    private func gates(_ json: JSONValue) throws(InvalidValue) -> ReleasePolicy.Gates {
        var gates = ReleasePolicy.Gates()
        let names = ["failed", "silent", "fetchErrors", "loss", "prometheus", "url"]
        for (name, value) in try members(json, names, of: "gates") {
            let path = "gates.\(name)"
            switch name {
            case "failed": gates.failed = try gate(value, otherwise: gates.failed, at: path)
            case "silent": gates.silent = try gate(value, otherwise: nil, at: path)
            case "fetchErrors": gates.fetchErrors = try gate(value, otherwise: gates.fetchErrors, at: path)
            case "prometheus": gates.prometheus = try query(value, at: path)
            case "url": gates.url = try probe(value, at: path)
            default:
                gates.loss = try gate(value, "margin", ["return"], otherwise: gates.loss, at: path)
                if let time = value["return"] {
                    gates.lossReturn = try duration(time, in: ReleasePolicy.returnTimes, at: "\(path).return")
                }
            }
        }
        return gates
    }

    /// `"1%"`, `"off"` (YAML reads a bare `off` as false), or an object with the limit and the action.
    private func gate(
        _ json: JSONValue, _ limitName: String = "limit", _ others: [String] = [], otherwise: ReleasePolicy.Gate?,
        at path: String
    ) throws(InvalidValue) -> ReleasePolicy.Gate? {
        if json == "off" || json == false { return nil }
        var gate = otherwise ?? ReleasePolicy.Gate(limit: Percentage.whole, onTrip: .rollback)
        guard json.object != nil else {
            gate.limit = try limit(json, orOff: true, at: path)
            return gate
        }
        let object = try members(json, [limitName, "onTrip"] + others, of: path)
        if let value = json[limitName] {
            gate.limit = try limit(value, orOff: false, at: "\(path).\(limitName)")
        } else if otherwise == nil {
            throw InvalidValue("\(path): give it a \(limitName), such as \"20%\"")
        }
        for (name, value) in object where name == "onTrip" {
            gate.onTrip = try choice(value, stored: .pause, at: "\(path).onTrip")
        }
        return gate
    }

    private func query(_ json: JSONValue, at path: String) throws(InvalidValue) -> ReleasePolicy.Query? {
        if json == "off" || json == false { return nil }
        _ = try members(json, ["url", "query", "limit", "onTrip"], of: path)
        guard let query = json["query"]?.string, (1...ReleasePolicy.maxQuery).contains(query.utf8.count) else {
            throw InvalidValue("\(path).query: write PromQL of 1 to \(ReleasePolicy.maxQuery) bytes")
        }
        guard let limit = json["limit"].flatMap(number) else {
            throw InvalidValue("\(path).limit: write the number that the query's result must not be above")
        }
        return ReleasePolicy.Query(
            url: try url(json["url"], at: path), query: query, limit: limit, onTrip: try onTrip(json, at: path))
    }

    /// Configuration hands numbers over as texts.
    private func number(_ json: JSONValue) -> Double? {
        let text: String? = if case .number(let text) = json { text } else { json.string }
        return text.flatMap(Double.init).flatMap { $0.isFinite ? $0 : nil }
    }

    /// A URL alone, or an object with it and the action.
    private func probe(_ json: JSONValue, at path: String) throws(InvalidValue) -> ReleasePolicy.Probe? {
        if json == "off" || json == false { return nil }
        if json.string != nil { return ReleasePolicy.Probe(url: try url(json, at: path), onTrip: .pause) }
        _ = try members(json, ["url", "onTrip"], of: path)
        return ReleasePolicy.Probe(url: try url(json["url"], at: path), onTrip: try onTrip(json, at: path))
    }

    private func onTrip(_ json: JSONValue, at path: String) throws(InvalidValue) -> ReleasePolicy.OnTrip {
        try json["onTrip"].map { value throws(InvalidValue) in try choice(value, stored: .pause, at: "\(path).onTrip") }
            ?? .pause
    }

    private func url(_ json: JSONValue?, at path: String) throws(InvalidValue) -> String {
        let isPlain = { (byte: UInt8) in (0x21...0x7E).contains(byte) }
        guard let text = json?.string, text.hasPrefix("https://") || text.hasPrefix("http://"),
            text.utf8.count <= ReleasePolicy.maxURL, text.utf8.allSatisfy(isPlain)
        else {
            throw InvalidValue(
                "\(path): give it a url that begins with https:// or http://, of at most "
                    + "\(ReleasePolicy.maxURL) bytes")
        }
        return text
    }

    private func limit(_ json: JSONValue, orOff: Bool, at path: String) throws(InvalidValue) -> Int {
        guard let points = Percentage.basisPoints(json), points > 0 else {
            let off = orOff ? ", or \"off\"" : ""
            throw InvalidValue("\(path): write a percentage from 0.01% to 100%, such as \"0.5%\"\(off)")
        }
        return points
    }

    private func stages(_ json: JSONValue) throws(InvalidValue) -> [Int] {
        let points = json.array?.compactMap(Percentage.basisPoints) ?? []
        let isAscending = zip(points, points.dropFirst()).allSatisfy { $0 < $1 }
        guard points.count == json.array?.count, (1...ReleasePolicy.maxStages).contains(points.count), isAscending,
            points[0] > 0, points.last == Percentage.whole
        else {
            throw InvalidValue(
                "stages: write 1 to \(ReleasePolicy.maxStages) percentages from 0.01%, each larger than the one "
                    + "before and the last 100%, such as [\"1%\", \"10%\", \"100%\"]")
        }
        return points
    }

    private func names(_ json: JSONValue) throws(InvalidValue) -> [String] {
        let names = (json.array ?? []).compactMap(\.string)
        guard names.count == json.array?.count, names.count <= ReleasePolicy.maxFirst, names.allSatisfy(isName) else {
            throw InvalidValue(
                "first: write at most \(ReleasePolicy.maxFirst) names of clients, each of 1 to "
                    + "\(ReleasePolicy.maxName) characters of A-Z a-z 0-9 . _ ~ : @ -")
        }
        return names
    }

    private func isName(_ text: String) -> Bool {
        (1...ReleasePolicy.maxName).contains(text.utf8.count)
            && text.utf8.allSatisfy { $0.isASCIIAlphanumeric || "._~:@-".utf8.contains($0) }
    }

    private func duration(
        _ json: JSONValue, in range: ClosedRange<Duration>, at path: String
    ) throws(InvalidValue) -> Duration {
        // Thrown below, with the range.
        guard let duration = json.string.flatMap({ try? Duration(spelled: $0) }), range.contains(duration) else {
            throw InvalidValue(
                "\(path): write a time from \(range.lowerBound.spelled) to \(range.upperBound.spelled), a "
                    + "whole number and its unit ms, s, m, h or d, such as 90s or 5m")
        }
        return duration
    }

    /// - Parameter stored: stands for a choice that only a newer program knows: the one that waits for an operator.
    private func choice<Choice: RawRepresentable<String> & CaseIterable>(
        _ json: JSONValue, stored: Choice, at path: String
    ) throws(InvalidValue) -> Choice {
        if let choice = json.string.flatMap(Choice.init(rawValue:)) { return choice }
        if isStored { return stored }
        let all = Choice.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: " or ")
        throw InvalidValue("\(path): write \(all)")
    }

    private func members(
        _ json: JSONValue, _ known: [String], of noun: String
    ) throws(InvalidValue) -> [(key: String, value: JSONValue)] {
        guard let object = json.object else {
            throw InvalidValue("\(noun): write an object with \(known.joined(separator: ", ")), not \(json.kind)")
        }
        if !isStored, let unknown = object.keys.first(where: { !known.contains($0) }) {
            let name = String(String.UnicodeScalarView(unknown.unicodeScalars.prefix(60)))
            let hint = nearestName(to: name, of: known).map { "the nearest known member is \"\($0)\"" }
            throw InvalidValue(
                "\(noun) has an unknown member \"\(name)\"; "
                    + (hint ?? "the known ones are \(known.joined(separator: ", "))"))
        }
        return object.members.filter { known.contains($0.key) }
    }
}
