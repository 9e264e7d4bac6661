import StalecastAccess
import StalecastHTTP
import StalecastStore
import StalecastTemplate
import StalecastWire

/// Templates that wait for another person's approval.
extension TemplateResource {
    /// Time at which the request asks for publication; nil: at once, or when it is approved.
    func publishTime(_ call: Call, _ publish: Publish) throws(GoogleError) -> Timestamp? {
        guard let time = try call.query.decisiveTimestamp("publishTime") else { return nil }
        let now = Timestamp.now()
        if call.needsApproval(scope.project) {
            throw .invalidField(
                "publishTime", "this project's versions need an approval; propose it, and approve it at the time")
        }
        if publish.staged != nil {
            throw .invalidField("publishTime", "a version with a publishTime is for all clients at once, not staged")
        }
        if time <= now { throw .invalidField("publishTime", "publishTime \(time) is over; it is \(now)") }
        if time >= now.advanced(by: Proposal.life) {
            throw .invalidField("publishTime", "publishTime must be within the next 30 days")
        }
        return time
    }

    /// `PUT remoteConfig?propose=true` or `publishTime`: everything a publish checks, and a proposal instead of a version.
    func propose(_ publish: Publish, at publishTime: Timestamp?, _ call: Call) async throws(GoogleError) -> Answer {
        call.note.act("proposeTemplate")
        let proposal = try await store(
            commits: true, try await store.propose(publish, by: call.person, at: publishTime))
        call.note.set("proposal", .string(String(proposal.number)))
        call.note.set("baseVersion", .string(String(proposal.base)))
        if let publishTime { call.note.set("publishTime", .string(publishTime.description)) }
        call.note.named(proposal.changedKeys)
        return call.json(json(proposal))
    }

    /// `GET remoteConfig/proposals?state=OPEN&pageSize=&pageToken=`: newest first.
    func listProposals(_ call: Call) async throws(GoogleError) -> Answer {
        let limit = try call.pageSize(100, most: 300)
        let first = try call.query.integer("pageToken") ?? .max
        let isOpen: Bool
        switch call.query["state"] {
        case nil: isOpen = false
        case Proposal.State.open.rawValue?: isOpen = true
        case .some: throw .invalidField("state", "state must be OPEN, or left out for all")
        }
        let found = try await store(try await store.proposals(of: scope, isOpen: isOpen, from: first, limit: limit + 1))
        return call.json([
            "proposals": .array(found.prefix(limit).map { .object(json($0)) }),
            "nextPageToken": found.count > limit ? .string(String(found[limit].number)) : nil,
        ])
    }

    /// `GET remoteConfig/proposals/{proposal}`: with its template while it is open, and what was published meanwhile.
    func getProposal(_ call: Call) async throws(GoogleError) -> Answer {
        let (proposal, template) = try await proposal(call)
        var object = json(proposal)
        object["template"] = template?.json
        if isStale(proposal) {
            let since = try await changes(since: proposal)
            object["changedSince"] = .texts(since)
        }
        return call.json(object)
    }

    /// `POST remoteConfig/proposals/{proposal}:approve`: compare and set on the ETag it was made over.
    func approve(_ call: Call) async throws(GoogleError) -> Answer {
        let (proposal, _) = try await proposal(call)
        call.note.set("author", .string(proposal.author.principal))
        let version: StoredVersion
        do {
            version = try await store.approve(
                proposal.number, of: scope, by: call.person, allowsOwn: !call.needsApproval(scope.project))
        } catch {
            if case .versionMismatch = error { throw try await superseded(proposal) }
            throw refusal(error)
        }
        call.note.published(version)
        return call.json(json(try await self.proposal(call).proposal), etag: version.etag)
    }

    /// `POST remoteConfig/proposals/{proposal}:reject` with `{"reason":"…"}`; its author may, too.
    func reject(_ call: Call) async throws(GoogleError) -> Answer {
        let reason = try Self.reason(call.body)
        let (proposal, _) = try await proposal(call)
        call.note.set("author", .string(proposal.author.principal))
        do { try await store.reject(proposal.number, of: scope, by: call.person, reason: reason) } catch {
            throw refusal(error)
        }
        return call.json(json(try await self.proposal(call).proposal))
    }

    private static func reason(_ body: [UInt8]) throws(GoogleError) -> String {
        guard !body.isEmpty, let value = try JSONBody.parse(body)["reason"], !value.isNull else { return "" }
        guard let reason = value.string, reason.unicodeScalars.count <= 1024 else {
            throw .invalidField("reason", "reason must be a text of at most 1024 characters")
        }
        return reason
    }

    // MARK: Parts

    private func proposal(_ call: Call) async throws(GoogleError) -> (proposal: Proposal, template: Template?) {
        let name = call.names["proposal"]
        let found: (proposal: Proposal, template: Template?)?
        if let number = Int64(name), number > 0 {
            found = try await store(try await store.proposal(number, of: scope))
        } else {
            found = nil
        }
        guard let found else {
            throw .notFound("Requested entity was not found: there is no proposal \(name.prefix(40)), or no longer.")
        }
        return found
    }

    private func json(_ proposal: Proposal) -> JSONObject {
        var object = proposal.json
        object["stale"] = .bool(isStale(proposal))
        return object
    }

    private func isStale(_ proposal: Proposal) -> Bool {
        proposal.state == .open && proposal.baseETag != store.currentTemplates[scope]?.etag ?? etag(0)
    }

    /// Parameters that differ between its base and what is current.
    private func changes(since proposal: Proposal) async throws(GoogleError) -> [String] {
        let base = try await store(try await store.version(proposal.base, of: scope))
        guard base != nil || proposal.base == 0 else { return [] }
        return TemplateDifference.changedKeys(
            from: base?.template ?? .empty, to: store.currentTemplates[scope]?.template ?? .empty)
    }

    /// Error for a proposal when another version was published since.
    private func superseded(_ proposal: Proposal) async throws(GoogleError) -> GoogleError {
        let current = store.currentTemplates[scope]
        let since = try await changes(since: proposal)
        let both = since.filter(proposal.changedKeys.contains)
        let user = current?.metadata.updateUser ?? UpdateUser()
        let name = user.name.isEmpty ? user.email : user.name
        return GoogleError(
            409, "ABORTED",
            "[VERSION_MISMATCH]: Proposal \(proposal.number) was made over version \(proposal.base), and version "
                + "\(current?.version ?? 0) is current\(name.isEmpty ? "" : ", by \(name)"). Changed since: "
                + "\(Self.list(since)); by the proposal too: \(Self.list(both)). Nothing was published; propose it anew."
        )
    }

    private static func list(_ names: [String]) -> String {
        names.isEmpty
            ? "nothing"
            : names.prefix(20).joined(separator: ", ") + (names.count > 20 ? " and \(names.count - 20) more" : "")
    }

    private func refusal(_ error: StoreError) -> GoogleError {
        OutcomeMapping(staleETagStatus: configuration.settings.staleETagStatus)
            .answer(to: error, commits: true, projectNumber: projectNumber)
    }
}

extension Call {
    /// Caller as it is kept with proposals and messages.
    var person: Proposal.Person {
        Proposal.Person(principal: principal?.actor ?? "stranger", user: updateUser)
    }

    /// Whether a template of the project is published by proposal and approval alone.
    func needsApproval(_ project: ProjectID) -> Bool { control.configuration.projects.approvals.contains(project) }
}
