import Foundation
import StalecastEtcd
import StalecastTestServers

/// Real etcd members on addresses of loopback, with data in a temporary directory.
final class Members {
    /// Debian's `etcd-server`; nil: it is not there.
    static let program = ["/usr/bin/etcd", "/usr/local/bin/etcd"].first {
        FileManager.default.isExecutableFile(atPath: $0)
    }
    /// Debian's `etcd-client`; nil: it is not there.
    static let control = ["/usr/bin/etcdctl", "/usr/local/bin/etcdctl"].first {
        FileManager.default.isExecutableFile(atPath: $0)
    }
    static let advice: String = {
        if program == nil {
            print("SKIPPED: no etcd here; apt-get install etcd-server runs the tests of StalecastEtcd")
        }
        return "apt-get install etcd-server"
    }()

    let directory: String
    private var processes: [ChildProcess?]
    let endpoints: [String]
    private let peers: String
    private let arguments: [String]

    /// - Parameters:
    ///   - network: third number of the addresses, one per test that runs at the same time.
    ///   - certificates: of the members; with them clients use TLS.
    init(_ count: Int, network: Int, certificates: TestCertificates? = nil, asksForCertificate: Bool = false) throws {
        directory = NSTemporaryDirectory() + "etcd-\(UUID().uuidString)"
        let scheme = certificates == nil ? "http" : "https"
        endpoints = (0..<count).map { "\(scheme)://127.77.\(network).\($0 + 1):2379" }
        // A member ends connections on which pings come more often than its least time, 5 s, a few seconds after.
        var more = [
            "--heartbeat-interval", "50", "--election-timeout", "500", "--grpc-keepalive-min-time", "100ms",
        ]
        if let certificates {
            more += ["--cert-file", certificates.file("server.pem"), "--key-file", certificates.file("server.key")]
            if asksForCertificate {
                more += ["--client-cert-auth", "--trusted-ca-file", certificates.file("ca.pem")]
            }
        }
        arguments = more
        peers = (0..<count).map { "m\($0)=http://127.77.\(network).\($0 + 1):2380" }.joined(separator: ",")
        processes = Array(repeating: nil, count: count)
        for member in 0..<count { try start(member) }
    }

    /// Settings of a client of theirs that is patient: on a busy machine a member takes seconds for what it can do.
    var configuration: EtcdConfiguration {
        var configuration = EtcdConfiguration(endpoints.compactMap { EtcdEndpoint($0) })
        configuration.timeout = .seconds(5)
        return configuration
    }

    deinit {
        for process in processes.compactMap(\.self) { process.end() }
        try? FileManager.default.removeItem(atPath: directory)
    }

    func start(_ member: Int) throws {
        let peer = "http://\(host(member)):2380"
        let own = [
            "--name", "m\(member)", "--data-dir", "\(directory)/m\(member)", "--listen-client-urls", endpoints[member],
            "--advertise-client-urls", endpoints[member], "--listen-peer-urls", peer,
            "--initial-advertise-peer-urls", peer, "--initial-cluster", peers, "--initial-cluster-token", directory,
        ]
        processes[member] = try ChildProcess(Self.program ?? "", own + arguments)
    }

    func kill9(_ member: Int) {
        processes[member]?.end()
        processes[member] = nil
    }

    private func host(_ member: Int) -> String {
        endpoints[member].split(separator: "/").last.map { String($0.prefix { $0 != ":" }) } ?? ""
    }

    /// Runs etcdctl.
    func control(_ words: [String]) throws {
        let all = ["--endpoints", endpoints[0]] + words
        try ChildProcess(Self.control ?? "", all, environment: ["ETCDCTL_API": "3"]).wait()
    }

    /// SIGSTOP and SIGCONT, say.
    func signal(_ signal: Int32, _ member: Int) {
        processes[member]?.signal(signal)
    }
}
