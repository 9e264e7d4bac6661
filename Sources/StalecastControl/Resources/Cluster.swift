import StalecastAccess
import StalecastHTTP
package import StalecastRecords
package import StalecastStore
package import StalecastWire

/// Questions to, and actions of, a node of a cluster.
package struct ClusterService: Sendable {
    package enum Outcome: Sendable {
        case committed(MadeVersion)
        case pending, notCommitted, unknown
    }

    /// Age that this node's copy of the log may have.
    package struct CopyAge: Sendable {
        /// The time since the log said that the copy is the newest.
        package let unverified: Duration
        /// Whether the age is more than `cluster.maxUnverified`.
        package let isTooLong: Bool

        package init(unverified: Duration, isTooLong: Bool) {
            self.unverified = unverified
            self.isTooLong = isTooLong
        }
    }

    let status: @Sendable () async -> JSONValue
    /// nil where answers from the copy are what was asked for (`cluster.fetch: local`), and at an edge while the log has
    /// confirmed it lately.
    let copyAge: @Sendable () async -> CopyAge?
    let newEpoch: @Sendable () async throws(LogError) -> JSONValue
    let upgrade: @Sendable () async throws(LogError) -> JSONValue
    let outcome: @Sendable (String) async throws(StoreError) -> Outcome
    /// Addresses of the Controls that take changes, as far as they are known; nil where this one does.
    let changesAt: (@Sendable () -> [String])?

    package init(
        status: @escaping @Sendable () async -> JSONValue,
        copyAge: @escaping @Sendable () async -> CopyAge?,
        changesAt: (@Sendable () -> [String])? = nil,
        newEpoch: @escaping @Sendable () async throws(LogError) -> JSONValue,
        upgrade: @escaping @Sendable () async throws(LogError) -> JSONValue,
        outcome: @escaping @Sendable (String) async throws(StoreError) -> Outcome
    ) {
        (self.status, self.copyAge, self.newEpoch) = (status, copyAge, newEpoch)
        (self.upgrade, self.outcome, self.changesAt) = (upgrade, outcome, changesAt)
    }
}

extension Call {
    private func cluster() throws(GoogleError) -> ClusterService {
        guard let cluster = control.cluster else {
            throw .notFound("This daemon is one by itself: it is no node of a cluster (store.etcd.endpoints).")
        }
        return cluster
    }

    /// Answers from the newest version. The answer is marked where the log did not say during the read that the copy
    /// here is the newest, and refused where it has not said so for too long, as fetches are.
    func fromNewest(_ read: () async throws(GoogleError) -> Answer) async throws(GoogleError) -> Answer {
        guard let cluster = control.cluster else { return try await read() }
        let began = ContinuousClock.now
        var answer = try await read()
        let took = began.duration(to: .now)
        guard let age = await cluster.copyAge(), age.unverified > took else { return answer }
        if age.isTooLong { throw .copyIsTooOld }
        answer.add("X-Stalecast-Unverified", String(Int(clamping: age.unverified.components.seconds) + 1))
        return answer
    }

    func clusterStatus() async throws(GoogleError) -> Answer {
        Answer(try await cluster().status())
    }

    func renewEpoch() async throws(GoogleError) -> Answer { try await change(cluster().newEpoch) }

    func upgradeCluster() async throws(GoogleError) -> Answer { try await change(cluster().upgrade) }

    private func change(_ change: () async throws(LogError) -> JSONValue) async throws(GoogleError) -> Answer {
        do throws(LogError) { return Answer(try await change()) } catch { throw GoogleError(error) }
    }

    /// Outcome of a publish whose answer was 504; also good for what was answered at once.
    func publishOutcome() async throws(GoogleError) -> Answer {
        let (cluster, publish, project) = (try cluster(), names["publish"], try project())
        let outcome: ClusterService.Outcome
        do throws(StoreError) { outcome = try await cluster.outcome(publish) } catch {
            throw GoogleError(503, "UNAVAILABLE", error.description).with("Retry-After", "5")
        }
        switch outcome {
        case .committed(let made) where made.scope.project == project:
            return Answer([
                "publishId": .string(publish), "state": "COMMITTED",
                "namespace": .string(made.scope.namespace.description), "versionNumber": .string(String(made.number)),
                "version": made.version?.metadata.json, "etag": (made.version?.etag).map { .string($0) },
            ])
        case .pending: return Answer(["publishId": .string(publish), "state": "PENDING"])
        case .notCommitted: return Answer(["publishId": .string(publish), "state": "NOT_COMMITTED"])
        // A publish of another project is answered as an unknown one: the grant is for this project alone.
        case .committed, .unknown:
            throw .notFound("The log has no publish \(publish) of this project, as far as this node knows.")
        }
    }
}

extension ControlOperations {
    static let cluster: [ControlOperation] = [
        operation(
            "clusterStatus", "GET", "/v1/cluster", tag: "Cluster", summary: "This node, its log, and etcd's members",
            answers: [.json("The cluster as this node sees it", .schema("Cluster"))], errors: [404],
            .call(Call.clusterStatus)),
        operation(
            "newEpoch", "POST", "/v1/cluster:newEpoch", tag: "Cluster",
            summary: "Begins another history with the log as it is; nodes take it over, clients are reset",
            body: APIBody(anyObject, isRequired: false),
            answers: [.json("The log's rules", .schema("LogMetadata"))], errors: [404, 503, 504], action: .operate,
            .call(Call.renewEpoch)),
        operation(
            "upgradeCluster", "POST", "/v1/cluster:upgrade", tag: "Cluster",
            summary: "Lets nodes write what this format has; older programs take no part any more",
            body: APIBody(anyObject, isRequired: false),
            answers: [.json("The log's rules", .schema("LogMetadata"))], errors: [404, 503, 504], action: .operate,
            .call(Call.upgradeCluster)),
        operation(
            "publishOutcome", "GET", "/v1/projects/{project}/publishes/{publish}", tag: "Cluster",
            summary: "What became of a publish, by the identity that its 504 named",
            answers: [.json("Its outcome", .schema("PublishOutcome"))], errors: [404, 503], .call(Call.publishOutcome)),
    ]

    static let clusterSchemas: JSONObject = [
        "Cluster": .recordSchema(
            [
                "name, node, epoch, head, logHead, publishId, problem, advertise": text, "ready, whole": flag,
                "unverifiedSeconds": number, "role": .enumSchema(["edge"]),
                "charter": .recordSchema(["format, minimumVersion": integer, "prunedBelow": text, "frozen": flag]),
                "etcd": .listSchema(
                    .objectSchema(
                        ["endpoint, version, finding, error": text, "isLeader": flag, "databaseBytes": integer],
                        required: ["endpoint"])),
                "nodes": .listSchema(
                    .recordSchema(
                        [
                            "id, version, head, configurationHash, advertise": text, "differs": .listSchema(text),
                            "subscribers, unverifiedSeconds": integer, "role": .enumSchema(["edge"]),
                            "etcdDelaySeconds": number,
                        ], optional: ["differs", "advertise", "role", "etcdDelaySeconds", "unverifiedSeconds"])),
                "gone": .listSchema(
                    .recordSchema(
                        ["id, head, advertise": text, "goneSeconds": integer, "role": .enumSchema(["edge"])],
                        optional: ["advertise", "role"])),
            ], optional: ["publishId", "problem", "advertise", "role", "charter"]),
        "LogMetadata": .recordSchema(["epoch": text, "minimumVersion": integer]),
        "PublishOutcome": .objectSchema(
            [
                "publishId, namespace, versionNumber, etag": text,
                "state": .enumSchema(["COMMITTED", "PENDING", "NOT_COMMITTED"]), "version": .schema("Version"),
            ], required: ["publishId", "state"]),
    ]
}

extension GoogleError {
    /// A log's answer to a change of its rules, as the API says it.
    package init(_ error: LogError) {
        if case .unknown(let sentence) = error {
            self = GoogleError(
                504, "DEADLINE_EXCEEDED",
                "The log of the cluster did not say whether it took it; look at `stalecast cluster status`: " + sentence
            ).with(detail: OutcomeMapping.outcome("CHANGE_PENDING", "unknown"))
        } else {
            self = GoogleError(503, "UNAVAILABLE", "The log of the cluster did not take it: \(error.description)")
                .with("Retry-After", "5").with(detail: OutcomeMapping.outcome("LOG_UNAVAILABLE", "not_committed"))
        }
    }

    fileprivate static let copyIsTooOld = GoogleError(
        503, "UNAVAILABLE",
        "This node cannot ask the cluster's log, and its copy is older than cluster.maxUnverified allows. Ask another node, "
            + "or name a version: versionNumber=N."
    ).with("Retry-After", "1")
}
