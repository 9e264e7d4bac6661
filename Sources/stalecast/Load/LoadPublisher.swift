import Foundation
import StalecastTemplate
import StalecastWire

/// Publishes the versions that a load waits for, and puts back what was there.
struct LoadPublisher: Sendable {
    /// The parameter whose value changes with every round.
    static let parameter = "stalecast_load"

    let api: TemplateAPI
    /// The template found at the start.
    let original: ServedTemplate
    /// Control's address; nil behind TLS, where the HTTP library must do.
    private let target: LoadTarget?

    /// Reads the template found at the start.
    /// - Throws: ``CommandFailure``, for example when the daemon is not there or refuses the token.
    init(_ api: TemplateAPI) async throws(CommandFailure) {
        self.api = api
        original = try await api.get()
        target = api.client.address.url.hasPrefix("https:") ? nil : try LoadTarget(api.client.address)
    }

    /// Gets ready to publish `latest` with another value of ``parameter``; what it returns does it. That throws a
    /// ``CommandFailure`` `versionMismatch` when somebody else published since `latest`.
    func prepare(
        _ value: String, over latest: ServedTemplate
    ) throws(CommandFailure) -> @Sendable () async throws -> ServedTemplate {
        try prepare(template: body(value), over: latest)
    }

    /// Gets ready to publish `template` over `latest`, likewise.
    func prepare(
        template: JSONValue, over latest: ServedTemplate
    ) throws(CommandFailure) -> @Sendable () async throws -> ServedTemplate {
        let (api, body) = (api, template)
        guard let target else {
            return { try await api.put(body, ifMatch: latest.etag, validateOnly: false) }
        }
        let connection = try PublishConnection(target)
        let request = request(body.encoded(), target, ifMatch: latest.etag)
        return {
            let answer = try await connection.exchange(request)
            guard answer.head.status == 200 else { throw ServerRefusal(answer, token: api.client.token).failure }
            return try ServedTemplate(answer)
        }
    }

    private func request(_ body: [UInt8], _ target: LoadTarget, ifMatch etag: String) -> [UInt8] {
        let path = "/v1/projects/\(api.scope.project)/namespaces/\(api.scope.namespace)/remoteConfig"
        let head = [
            "PUT \(target.basePath)\(path) HTTP/1.1", "Host: \(target.authority)", "Connection: close",
            "Authorization: Bearer \(api.client.token.secret)", "If-Match: \(etag)",
            "Content-Type: application/json; charset=utf-8", "Content-Length: \(body.count)", "", "",
        ]
        return Array(head.joined(separator: "\r\n").utf8) + body
    }

    private func body(_ value: String) -> JSONValue {
        var template = original.json.object ?? [:]
        template["version"] = nil
        var parameters = template["parameters"]?.object ?? [:]
        parameters[Self.parameter] = ["defaultValue": ["value": .string(value)], "description": "stalecast load"]
        template["parameters"] = .object(parameters)
        return .object(template)
    }

    /// Makes the original content current again: by a rollback, or by an empty template when there was no version.
    ///
    /// Does nothing when somebody else has published after `latest`: theirs must not be lost.
    func restore(after latest: ServedTemplate) async throws(CommandFailure) -> LoadRestoration {
        guard latest.version > original.version else { return .notNeeded }
        guard try await api.get().version == latest.version else { return .leftAlone }
        if original.version > 0 {
            return .rolledBack(to: original.version, as: try await api.rollback(to: original.version).version)
        }
        let empty: JSONValue = ["conditions": [], "parameters": [:], "parameterGroups": [:]]
        return .emptied(as: try await api.put(empty, ifMatch: latest.etag, validateOnly: false).version)
    }

    /// As ``restore(after:)`` if that is wanted; a failure is part of the report.
    func restoration(after latest: ServedTemplate, isWanted: Bool) async -> LoadRestoration {
        guard isWanted else { return .notWanted }
        do { return try await restore(after: latest) } catch { return .failed(error) }
    }
}

/// What became of the template after the load.
enum LoadRestoration: Sendable {
    /// Nothing was published.
    case notNeeded
    /// `--no-restore`: the last round's version stays.
    case notWanted
    /// Somebody else published meanwhile; their version stays.
    case leftAlone
    case rolledBack(to: VersionNumber, as: VersionNumber)
    case emptied(as: VersionNumber)
    case failed(CommandFailure)

    var sentence: String {
        switch self {
        case .notNeeded: "nothing was published"
        case .notWanted: "the last round's version stays (--no-restore)"
        case .leftAlone: "somebody else published meanwhile: theirs stays, nothing was rolled back"
        case .rolledBack(let source, let version): "rolled back to version \(source), which is now version \(version)"
        case .emptied(let version): "there was no version before: an empty template is now version \(version)"
        case .failed(let failure): "not restored: \(failure.sentence)"
        }
    }
}
