import NIOCore
import StalecastHTTP
package import StalecastHub
import StalecastWire

package struct FlagRequest {
    /// The flag that is asked for; nil for all.
    let key: String?
    let ifNoneMatch: String?
    /// `flagConfigEtag`: the tag in the message that made the client ask.
    let announced: String?
    /// The value of `eventStreams` for a client; nil leaves it out.
    let streams: (ClientIdentity?) -> String?

    package init(
        key: String? = nil, ifNoneMatch: String? = nil, query: Substring = "",
        streams: @escaping (ClientIdentity?) -> String? = { _ in nil }
    ) {
        self.key = key
        self.ifNoneMatch = ifNoneMatch
        announced = query.isEmpty ? nil : QueryParameters(query)["flagConfigEtag"]
        self.streams = streams
    }
}

extension FetchScope {
    /// Answer to an OpenFeature provider: flags, or 304 when it has the same flags already.
    package func flags(
        _ body: [UInt8], _ request: FlagRequest = FlagRequest(), maxBodyBytes: Int = 65_536, address: UInt64? = nil
    ) throws(FlagRefusal) -> FetchAnswer {
        if let elsewhere { throw FlagRefusal(.general, elsewhere) }
        let plain: [UInt8]
        do { plain = try RequestBody.inflated(body, cap: maxBodyBytes) } catch {
            throw FlagRefusal(error, error.code == 400 ? .parseError : .general)
        }
        return try plain.withUnsafeBufferPointer { bytes throws(FlagRefusal) -> FetchAnswer in
            if let scan = FetchScan(bytes, isOfFlags: true) {
                return try answer(scan, scan, version(of: scan.text(.instanceID), address), request)
            }
            let fields = try FlagFields(plain)
            return try answer(fields, nil, version(of: fields.text(.instanceID), address), request)
        }
    }

    /// Answer to an ordinary body, on a thread that has streams to write to.
    ///
    /// - Returns: nil where the body is not ordinary, is refused, or might take long to answer.
    func flagsAtOnce(_ body: UnsafeBufferPointer<UInt8>, _ request: FlagRequest, address: UInt64?) -> FetchAnswer? {
        guard elsewhere == nil, let scan = FetchScan(body, isOfFlags: true),
            let version = version(of: scan.text(.instanceID), address), version.hasFlags(.ofrep), !version.isSlow
        else { return nil }
        // The Front, which answers instead, says what is wrong.
        return try? answer(scan, scan, version, request)
    }

    /// - Parameter scan: `members`, where they were read in place.
    private func answer(
        _ members: some FlagMembers, _ scan: FetchScan?, _ version: Version?, _ request: FlagRequest
    ) throws(FlagRefusal) -> FetchAnswer {
        if let announced = request.announced, version?.change.isOlder(than: announced) ?? false { throw .behind }
        let outcome = version?.outcome(of: members, scan)
        if let key = request.key {
            guard let version, let outcome else { throw .notFound }
            // Its asker is a server that keeps nothing: it is not counted among the clients that have a version.
            return FetchAnswer(
                bytes: try version.flags(.ofrep).flag(key, outcome), dialect: .ofrep, renderingSeconds: nil,
                client: nil, scope: scope, version: version.change.version)
        }
        let found = rendering(in: .ofrep, version, outcome)
        let client = ClientIdentity(members.text(.instanceID) ?? "", app: members.text(.appID) ?? "", sdk: "ofrep")
        var answer = answer(found, unless: request.ifNoneMatch, .ofrep, client)
        if let streams = request.streams(client) {
            answer.bytes = found.0.bytes(eventStreams: streams, unless: request.ifNoneMatch)
        }
        return answer
    }
}

extension TemplateChange {
    /// Whether `announced` is the tag of a later version. Tags of other servers are not.
    fileprivate func isOlder(than announced: String) -> Bool {
        let tag = ETagSpelling.bare(announced)
        guard let bar = etag.utf8.lastIndex(of: UInt8(ascii: "-")), tag.utf8.starts(with: etag[...bar].utf8) else {
            return false
        }
        return VersionNumber(tag.dropFirst(etag[...bar].count)) ?? 0 > version
    }
}

extension FlagRefusal {
    fileprivate static var behind: FlagRefusal {
        var refusal = FlagRefusal(.general, "the announced version is not here yet; try again", status: 503)
        refusal.fields = "Retry-After: 1\r\n"
        return refusal
    }
}
