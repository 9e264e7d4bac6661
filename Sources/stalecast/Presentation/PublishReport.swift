import StalecastWire

/// What a publish or a rollback did, or a check would do.
struct PublishReport {
    let scope: Scope
    let before: ServedTemplate
    /// The server's answer.
    let after: ServedTemplate
    /// Compared with `before`, sorted.
    let changedKeys: [String]
    /// Nothing was published.
    var isCheck = false

    func write(to output: Output) throws(CommandFailure) {
        if output.isJSON { return try output.json(json) }
        try output.line(isCheck ? checkLine : publishLine(output.palette))
        for key in changedKeys { try output.line("  \(output.palette.yellow("~")) \(key.printable)") }
    }

    /// `{"scope","validateOnly","version","etag","since","changedKeys"}`; for a check without `version` and `etag`.
    /// `since` is the version that `changedKeys` were compared with.
    private var json: JSONValue {
        var object: JSONObject = ["scope": .string(scope.description), "validateOnly": .bool(isCheck)]
        if !isCheck {
            object["version"] = after.json["version"]
            object["etag"] = .string(after.etag)
        }
        object["since"] = .string(String(before.version))
        object["changedKeys"] = .array(changedKeys.map(JSONValue.string))
        return .object(object)
    }

    private var checkLine: String {
        "valid for \(scope); nothing was published. It would change \(change)"
    }

    private func publishLine(_ palette: Palette) -> String {
        let source = after.json["version"]?["rollbackSource"]?.int64
        let act = source.map { "rolled back to the content of version \($0): " } ?? "published "
        return "\(act)\(palette.green("version \(after.version)")) of \(scope), \(after.etag); changes \(change)"
    }

    private var change: String {
        switch changedKeys.count {
        case 0: "no parameter since version \(before.version)"
        case 1: "1 parameter since version \(before.version):"
        default: "\(changedKeys.count) parameters since version \(before.version):"
        }
    }
}
