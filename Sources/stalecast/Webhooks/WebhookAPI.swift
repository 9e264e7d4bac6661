import ArgumentParser
import Foundation
import StalecastWire

/// Options for the webhooks' project on a daemon.
struct WebhookOptions: ParsableArguments {
    @OptionGroup var project: ProjectOptions

    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var outputOptions: OutputOptions

    func api() throws(CommandFailure) -> WebhookAPI {
        WebhookAPI(client: try connection.controlClient(), project: try project.id())
    }
}

/// One webhook of a project.
struct WebhookTarget: ParsableArguments {
    @Argument(help: "The webhook's id, wh_ and 20 characters; see `stalecast webhooks list`.", completion: .webhooks)
    var id: String

    func validate() throws {
        let isSpelled = id.utf8.allSatisfy { $0.isASCIIAlphanumeric || $0 == UInt8(ascii: "_") }
        if !isSpelled || id.isEmpty {
            throw ValidationError("\"\(id)\" is no webhook's id, such as wh_4n3xqv7pqk2yb6l5m7ta")
        }
    }
}

/// Control's `webhooks` resource of one project.
struct WebhookAPI: Sendable {
    let client: ControlClient
    let project: ProjectID

    /// The daemon may wait for a receiver, whose time limit is at most a minute.
    private static let patience: Duration = .seconds(90)
    /// Largest page of a list that is asked for.
    private static let maxPageSize = 1000

    private var collection: String { "/v1/projects/\(project)/webhooks" }

    func create(_ settings: JSONValue) async throws(CommandFailure) -> JSONValue {
        try await client.send("POST", collection, body: settings, changes: true).json()
    }

    func get(_ id: String) async throws(CommandFailure) -> JSONValue {
        try await client.send("GET", "\(collection)/\(id)").json()
    }

    /// - Parameter mask: paths to set; those the settings lack go back to their defaults.
    func update(_ id: String, _ settings: JSONValue, mask: [String]) async throws(CommandFailure) -> JSONValue {
        let query = [URLQueryItem(name: "updateMask", value: mask.joined(separator: ","))]
        return try await client.send("PATCH", "\(collection)/\(id)", query: query, body: settings, changes: true).json()
    }

    func delete(_ id: String) async throws(CommandFailure) {
        _ = try await client.send("DELETE", "\(collection)/\(id)", changes: true)
    }

    /// `POST …/<id>:<verb>`.
    func act(_ id: String, _ verb: String, _ request: JSONValue = [:]) async throws(CommandFailure) -> JSONValue {
        try await client.send(
            "POST", "\(collection)/\(id):\(verb)", body: request, changes: true, patience: Self.patience
        ).json()
    }

    /// Every webhook, oldest first.
    func list() async throws(CommandFailure) -> [JSONValue] {
        try await pages(collection, "webhooks", limit: .max).items
    }

    /// `attempts` or `deadLetters` of a webhook, newest first, at most `limit`.
    func list(
        _ member: String, of id: String, limit: Int
    ) async throws(CommandFailure) -> (items: [JSONValue], hasMore: Bool) {
        try await pages("\(collection)/\(id)/\(member)", member, limit: limit)
    }

    private func pages(
        _ path: String, _ member: String, limit: Int
    ) async throws(CommandFailure) -> (items: [JSONValue], hasMore: Bool) {
        var items: [JSONValue] = []
        var next: String?
        repeat {
            let size = min(limit - items.count, Self.maxPageSize)
            var query = [URLQueryItem(name: "pageSize", value: String(size))]
            if let next { query.append(URLQueryItem(name: "pageToken", value: next)) }
            let page = try await client.send("GET", path, query: query).json()
            let found = page[member]?.array ?? []
            items += found
            next = found.isEmpty ? nil : page["nextPageToken"]?.string
        } while next != nil && items.count < limit
        return (items, next != nil)
    }
}
