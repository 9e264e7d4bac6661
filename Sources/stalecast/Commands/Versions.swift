import ArgumentParser
package import StalecastWire

struct Versions: AsyncParsableCommand, ScopedControlOptions {
    static let configuration = CommandConfiguration(
        commandName: "versions",
        abstract: "List the stored versions, newest first.",
        discussion: """
            Examples:
              stalecast versions
              stalecast versions --limit 50
              stalecast versions --from 76  # the page that begins with version 76
              stalecast versions --json | jq -r '.versions[].versionNumber'
            """)

    @Option(help: "How many versions to list, 1 or more.")
    var limit = 20

    @Option(name: .customLong("from"), help: .value("number", "Newest version to list."))
    var newest: Int64?

    @OptionGroup var scoped: ScopedOptions

    func validate() throws {
        if limit < 1 { throw ValidationError("--limit is 1 or more") }
        if let newest, newest < 1 { throw ValidationError("--from is 1 or more") }
    }

    func run() async throws {
        let api = try api()
        let (versions, hasMore) = try await api.versions(from: newest, limit: limit)
        try output.list(
            "versions", versions, ifNone: "no version published yet; try `stalecast publish FILE`",
            .right("VERSION") { $0["versionNumber"]?.int64.map { String($0) } ?? "?" },
            .whole("TIME") { $0.time("updateTime") }, .right("AGE") { age($0.word("updateTime", "")) },
            .left("TYPE", updateType), .whole("ORIGIN") { specified($0["updateOrigin"]) }, .extra("USER", Self.user),
            .extra("DESCRIPTION") { $0.word("description", "") })
        if !output.isJSON, hasMore, let oldest = versions.last?["versionNumber"]?.int64 {
            output.remark("older ones: stalecast versions --from \(oldest - 1)")
        }
    }

    private static func user(of version: JSONValue) -> String {
        let user = UpdateUser(json: version["updateUser"])
        return user.name.isEmpty ? user.email : user.name
    }
}

/// Origin of a version, in short: `INCREMENTAL_UPDATE`, or `ROLLBACK to 3`.
///
/// - Parameter version: Firebase's `version` object or a STALE message; both have these members.
func updateType(of version: JSONValue) -> String {
    let type = specified(version["updateType"])
    guard let source = version["rollbackSource"]?.int64 else { return type }
    return "\(type) to \(source)"
}

/// A word of Firebase's enums; empty for those that say nothing (`…_UNSPECIFIED`).
func specified(_ value: JSONValue?) -> String {
    guard let word = value?.string, !word.hasSuffix("_UNSPECIFIED") else { return "" }
    return word
}

/// `2026-11-20 13:00:00 CET` of an RFC 3339 time; other text as it is.
func clockTime(_ text: String) -> String { Timestamp(text).map(LocalClock.asked.date) ?? text }

/// Age of an RFC 3339 time, in its largest unit: `5s`, `12m`, `3h`, `40d`; `in 3h` for a time to come, when a clock was
/// put back or two clocks differ; empty for other text.
package func age(_ text: String, at now: Timestamp = .now()) -> String {
    guard let time = Timestamp(text) else { return "" }
    let (difference, overflow) = now.microseconds.subtractingReportingOverflow(time.microseconds)
    guard !overflow else { return "" }
    // Clocks of machines that keep time differ by less.
    let seconds = difference > -2_000_000 ? max(0, difference) / 1_000_000 : difference / 1_000_000
    let (length, unit): (Int64, String) =
        switch seconds.magnitude {
        case ..<60: (1, "s")
        case ..<3600: (60, "m")
        case ..<86_400: (3600, "h")
        default: (86_400, "d")
        }
    return (seconds < 0 ? "in " : "") + "\(seconds.magnitude / UInt64(length))\(unit)"
}
