import StalecastHub
import StalecastWebhooks
import StalecastWire
import Yams

extension ConfigurationReading {
    /// Reads an entry of `webhooks.receivers`. Whether its project and topics exist is checked when both are known.
    mutating func receiver(_ entry: Entry) -> Configuration.Receiver? {
        let path = entry.path
        let name = value("name", of: entry, parse: receiverName)
        let project = value("project", of: entry, or: .demo, parse: ProjectID.init)
        if let name, let project { claim(name, "name", of: entry, among: "\(project)") }
        let topics = values("topics", of: entry, or: [.pushRC], parse: TopicName.init)
        if let project { mentionedTopics.append((path, project, topics ?? [])) }
        let secretFiles = values("secretFiles", of: entry, or: [], parse: checkedPath)
        guard let document = document(entry, topics ?? []) else { return nil }
        guard let name, let project, let topics, let secretFiles else { return nil }
        checkSecretFiles(secretFiles, document, at: path)
        return Configuration.Receiver(
            name: name, project: project, topics: topics, document: document, secretFiles: secretFiles)
    }

    private mutating func checkSecretFiles(_ files: [String], _ document: JSONValue, at path: String) {
        let isSigned = document["format"]?.string != "fcm"
        if isSigned, files.isEmpty {
            note("\(path) has no secretFiles; `stalecast webhooks new-secret > FILE` makes a secret", at: path)
        } else if !isSigned, !files.isEmpty {
            note("\(path).secretFiles: format fcm does not sign; remove them", at: "\(path).secretFiles")
        }
    }

    /// The entry as the API's document; nil, with a note for each problem, when it is not a good one.
    private mutating func document(_ entry: Entry, _ topics: [TopicName]) -> JSONValue? {
        var members: [String: JSONObject] = [:]
        var isSound = true
        for (key, member, kind) in ReceiverField.scalars {
            guard entry.fields[key] != nil else { continue }
            guard let value = value(key, of: entry, parse: { try scalar($0, kind) }) else {
                isSound = false
                continue
            }
            let parts = member.split(separator: ".").map(String.init)
            members[parts.count == 2 ? parts[0] : "", default: JSONObject()][parts[parts.count - 1]] = value
        }
        if let node = entry.fields["headers"] {
            let pairs = namesAndValues(node, at: "\(entry.path).headers")
            isSound = isSound && pairs != nil
            let headers = pairs?.reduce(into: JSONObject()) { $0[$1.name] = .string($1.value) }
            if let headers { members["", default: JSONObject()]["headers"] = .object(headers) }
        }
        var object = members[""] ?? JSONObject()
        for name in members.keys.sorted() where !name.isEmpty { object[name] = members[name].map(JSONValue.object) }
        object["topics"] = .texts(topics)
        return understood(.object(object), at: entry.path) && isSound ? .object(object) : nil
    }

    /// Lets the registry judge each value alone, then all together. Each problem names its value's line.
    private mutating func understood(_ document: JSONValue, at path: String) -> Bool {
        let members = document.object ?? [:]
        let alone = members.keys.map { name in JSONValue.object([name: members[name] ?? .null]) }
        let areSound = alone.map { isAccepted($0, at: path) }
        return areSound.allSatisfy(\.self) && isAccepted(document, at: path)
    }

    private mutating func isAccepted(_ document: JSONValue, at path: String) -> Bool {
        var draft = WebhookDraft()
        do {
            try draft.take(document, files: .paths)
            return true
        } catch {
            guard case .invalid(let field, let sentence) = error else {
                note("\(path): \(error)", at: path)
                return false
            }
            let key = ReceiverField.scalars.first { $0.member == field }?.key ?? field
            note("\(path).\(key) \(sentence)", at: "\(path).\(key.prefix { $0 != "[" })")
            return false
        }
    }

    /// Projects and topics of the receivers exist.
    mutating func checkReceivers() {
        guard sound("projects") else { return }
        let projects = configuration.projects.map(\.id)
        for (path, project, topics) in mentionedTopics {
            guard projects.contains(project) else {
                let names = projects.map(\.description).joined(separator: ", ")
                note("\(path): there is no project \(project); the projects are \(names)", at: path)
                continue
            }
            // A topic that was refused is not missing.
            guard sound("topics") else { continue }
            let known = configuration.webhookTopics(of: project)
            for topic in topics where !TopicName.operations.contains(topic) && !known.contains(topic) {
                let names = known.map(\.description).joined(separator: ", ")
                note(
                    "\(path).topics: no scope of \(project) is bound to \(topic); there are \(names)",
                    at: "\(path).topics")
            }
        }
    }
}

extension Configuration {
    /// The topics a project's webhooks can name, sorted.
    func webhookTopics(of project: ProjectID) -> [TopicName] {
        effectiveTopics.filter { topic in topic.scopes.contains { $0.project == project } }.map(\.name).sorted()
    }
}

private func receiverName(_ text: String) throws(InvalidValue) -> String {
    guard text.isWord(1...64, and: "-_") else {
        throw InvalidValue("a webhook's name has 1 to 64 characters of A-Z a-z 0-9 - _")
    }
    return text
}

private func scalar(_ text: String, _ kind: ReceiverField.Kind) throws(InvalidValue) -> JSONValue {
    switch kind {
    case .text: return .string(text)
    case .number:
        guard let number = Double(text), number.isFinite else { throw InvalidValue("\"\(text)\" is no number") }
        return .double(number)
    case .duration:
        let duration = try Duration(spelled: text)
        // Before it is spelled for the API, which counts in microseconds; what is permitted is shorter still.
        guard duration <= .seconds(86_400) else { throw InvalidValue("\"\(text)\" is longer than 1d") }
        return .string(duration.wireText)
    }
}
