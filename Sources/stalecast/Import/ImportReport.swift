import StalecastWire

struct ImportReport {
    /// `shop-prod/firebase`.
    let origin: String
    let scope: Scope
    let isDryRun: Bool
    /// Number of versions that the origin lists.
    let found: Int
    /// The origin's newest.
    let newest: VersionNumber
    let findings: [ImportFinding]
    /// The origin's number and ours; ours is nil when nothing was to be published.
    var published: [(there: VersionNumber, here: Int64?)] = []
    /// Versions that are not valid here, and why.
    var skipped: [(there: VersionNumber, problems: [String])] = []

    func write(to output: Output) throws(CommandFailure) {
        let left = skipped.flatMap { number, problems in
            ["version \(number) is not valid here and was left out:"] + problems.prefix(3).map { "  \($0.printable)" }
        }
        let parts =
            (findings.isEmpty ? [] : ["version \(newest) has parts that are otherwise here than at Firebase:"])
            + findings.map { "  \($0.place.printable) \($0.sentence)" }
        try output.show(json, [headline(output.palette)] + left + parts)
    }

    private func headline(_ palette: Palette) -> String {
        let count = published.count
        let versions = "\(count) version\(count == 1 ? "" : "s")"
        if count == 0 { return "nothing new: \(scope) has version \(newest) of \(origin) already" }
        if isDryRun { return "\(versions) of \(origin) would be published to \(scope); nothing was published" }
        let here = published.last?.here ?? 0
        return
            "published \(palette.green(versions)) of \(origin) to \(scope); version \(newest) is version \(here) here"
    }

    private var json: JSONValue {
        [
            "origin": .string(origin), "scope": .string(scope.description), "dryRun": .bool(isDryRun),
            "found": .int(found),
            "published": .array(
                published.map { there, here in
                    [
                        "originVersionNumber": .string(String(there)),
                        "versionNumber": here.map { .string(String($0)) },
                    ]
                }),
            "skipped": .array(
                skipped.map { there, problems in
                    [
                        "originVersionNumber": .string(String(there)),
                        "problems": .array(problems.map(JSONValue.string)),
                    ]
                }),
            "findings": .array(
                findings.map { finding in
                    [
                        "kind": .string(finding.kind.rawValue), "place": .string(finding.place),
                        "message": .string(finding.sentence),
                    ]
                }),
        ]
    }
}
