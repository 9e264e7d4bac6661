package import StalecastWire
import Synchronization

/// Status that etcd's members report: asked for each minute, and judged again each time, for they may be replaced.
package final class EtcdMembers: Sendable {
    /// One, as it answered last.
    package struct Member: Sendable {
        package let endpoint: EtcdEndpoint
        let answer: Result<EtcdStatus, EtcdFailure>

        /// nil for one that does not answer.
        package var status: EtcdStatus? { try? answer.get() }

        /// `good`, `old`, `refused`; `silent` for one that does not answer.
        package var word: String { status?.suitability.word.rawValue ?? Self.silent }

        static let silent = "silent"
        package static let words = EtcdStatus.Suitability.Word.allCases.map(\.rawValue) + [silent]
    }

    private let client: EtcdClient
    private let endpoints: [EtcdEndpoint]
    private let report: @Sendable (EtcdEndpoint, String) -> Void
    private let known = Mutex<[Member]>([])
    private let warned = Mutex<[EtcdEndpoint: String]>([:])

    private static let askEvery = Duration.seconds(60)

    /// - Parameter report: takes what is wrong with a member, once for each finding.
    package init(
        _ client: EtcdClient, _ endpoints: [EtcdEndpoint], report: @escaping @Sendable (EtcdEndpoint, String) -> Void
    ) {
        (self.client, self.endpoints, self.report) = (client, endpoints, report)
    }

    /// Members as they answered last, in the order of the configuration; empty before the first time.
    package var all: [Member] { known.withLock { $0 } }

    /// Asks until its task is cancelled.
    package func run() async {
        while !Task.isCancelled {
            _ = await ask()
            // Cancelled: the loop ends.
            try? await Task.sleep(for: Self.askEvery)
        }
    }

    /// Asks all of them at once.
    private func ask() async -> [Member] {
        let members = await withTaskGroup { group in
            for (number, endpoint) in endpoints.enumerated() {
                group.addTask { [client] in
                    do throws(EtcdFailure) {
                        return (
                            number, Member(endpoint: endpoint, answer: .success(try await client.status(of: number)))
                        )
                    } catch {
                        return (number, Member(endpoint: endpoint, answer: .failure(error)))
                    }
                }
            }
            return await group.reduce(into: []) { $0.append($1) }.sorted { $0.0 < $1.0 }.map(\.1)
        }
        known.withLock { $0 = members }
        members.forEach(judge)
        return members
    }

    private func judge(_ member: Member) {
        guard let finding = member.status?.suitability.finding else { return }
        guard warned.withLock({ $0.updateValue(finding, forKey: member.endpoint) }) != finding else { return }
        report(member.endpoint, finding)
    }

    /// Members as the API lists them, asked now.
    package var json: [JSONValue] {
        get async {
            await ask().map { member in
                let endpoint = JSONValue.string(member.endpoint.description)
                return switch member.answer {
                case .success(let status):
                    [
                        "endpoint": endpoint, "version": .string(status.version),
                        "isLeader": .bool(status.leader != 0 && status.leader == status.memberID),
                        "databaseBytes": .int(status.databaseBytes),
                        "finding": status.suitability.finding.map { .string($0) },
                    ]
                case .failure(let failure): ["endpoint": endpoint, "error": .string(failure.description)]
                }
            }
        }
    }
}
