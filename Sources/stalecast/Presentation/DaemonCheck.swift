package import StalecastDaemon
import StalecastHTTP
package import StalecastWire

/// Findings about a running daemon, from its `/status`: what needs the operator, and the command that goes on from there.
package struct DaemonCheck {
    private let status: JSONValue
    private let cluster: JSONValue?
    private let version: String
    private let now: Int

    /// - Parameters:
    ///   - cluster: answer of `/v1/cluster`; nil for a daemon outside a cluster.
    ///   - version: that of this program.
    ///   - now: seconds since 1970.
    package init(_ status: JSONValue, cluster: JSONValue? = nil, version: String, now: Int) {
        (self.status, self.cluster, self.version, self.now) = (status, cluster, version, now)
    }

    package var findings: [SystemCheck.Finding] {
        [ready, versions, configuration, store] + degraded + certificates + refusedCertificates
            + [webhooks, sources, clusterNode].compactMap(\.self)
    }

    private func finding(_ subject: String, _ sentence: String, _ command: String? = nil) -> SystemCheck.Finding {
        SystemCheck.Finding(subject: subject, sentence: sentence, command: command)
    }

    private var ready: SystemCheck.Finding {
        let reasons = status.words("notReady")
        guard reasons.isEmpty else {
            return finding("ready", "the daemon is not ready: \(reasons.joined(separator: "; "))", "stalecast status")
        }
        return finding("ready", "the daemon is ready, since \(status.word("startedAt"))")
    }

    private var versions: SystemCheck.Finding {
        let theirs = status.word("version")
        guard theirs != version else { return finding("version", "the daemon and this program are \(version)") }
        return finding(
            "version", "the daemon is \(theirs), this program is \(version)",
            "systemctl restart stalecast  # after an upgrade; else install the same version here")
    }

    private var configuration: SystemCheck.Finding {
        let configuration = status["configuration"] ?? .null
        if let problem = configuration["problem"]?.string {
            return finding(
                "configuration", "a newer configuration was refused, the one before is in force: \(problem)",
                // A token's or a webhook's problem has no configuration file.
                configuration["file"]?.string.map { "stalecast check-config --config '\($0)'" } ?? "stalecast status")
        }
        let waiting = configuration.words("waitingForRestart")
        if waiting.isEmpty {
            return finding("configuration", "the configuration in force is the newest that was read")
        }
        return finding(
            "configuration", "these changes of the file wait for a restart: \(waiting.joined(separator: ", "))",
            "systemctl restart stalecast  # or undo the changes, then systemctl reload stalecast")
    }

    private var store: SystemCheck.Finding {
        let health = status["store"]?.word("health") ?? "?"
        guard health != "ok" else { return finding("store", "the store is ok") }
        let isFull = health.hasPrefix("the disk is full")
        return finding(
            "store", "the store cannot be written: \(health)",
            isFull ? "df -h; stalecast status" : "journalctl -u stalecast -n 50")
    }

    private var degraded: [SystemCheck.Finding] {
        status.words("degraded").map { text in
            let isClock = text.hasPrefix("the system clock")
            return finding(isClock ? "clock" : "degraded", text, isClock ? "timedatectl" : "stalecast status")
        }
    }

    private var certificates: [SystemCheck.Finding] {
        status.items("certificates").map { certificate in
            let file = certificate.word("certificate")
            let name = "the certificate \(file) of \(certificate.word("listener"))"
            guard let end = certificate["notAfter"]?.string.flatMap({ Timestamp($0) }) else {
                return finding("certificate", "\(name) has no date", "stalecast tls check '\(file)'")
            }
            let judgement = CertificateTerm(notAfter: Int(end.microseconds / 1_000_000)).judgement(at: now)
            guard let sentence = judgement.sentence else {
                return finding("certificate", "\(name) is valid until \(end)")
            }
            return finding("certificate", "\(name) \(sentence)", "stalecast tls check '\(file)'")
        }
    }

    /// One for each listener whose newest files are not in force.
    private var refusedCertificates: [SystemCheck.Finding] {
        var listeners: Set<String> = []
        let certificates = status.items("certificates")
        return certificates.compactMap { certificate in
            guard let refused = certificate["refused"], let listener = certificate["listener"]?.string,
                listeners.insert(listener).inserted
            else { return nil }
            let problem = refused.word("problem")
            let own = certificates.filter { $0["listener"]?.string == listener }
            let files = own.compactMap { $0["certificate"]?.string }
            // A problem of a key names no certificate: then each is to be looked at.
            let named = files.filter { problem.contains($0) }.max { $0.count < $1.count }
            return finding(
                "certificate",
                "newer certificate files of \(listener) were refused at \(refused.word("time")): \(problem)",
                (named.map { [$0] } ?? files).map { "stalecast tls check '\($0)'" }.joined(separator: "; "))
        }
    }

    private var webhooks: SystemCheck.Finding? {
        guard let webhooks = status["webhooks"] else { return nil }
        func count(_ state: String) -> Int64 { webhooks["states"]?[state]?.int64 ?? 0 }
        let (failing, letters) = (count("failing"), webhooks["deadLetters"]?.int64 ?? 0)
        if let health = webhooks["health"]?.string, health != "ok" {
            return finding("webhooks", "webhooks are \(health)", "df -h; stalecast status")
        }
        if failing + count("disabled") > 0 {
            return finding(
                "webhooks", "\(failing) webhooks fail, \(count("disabled")) were disabled", "stalecast webhooks list")
        }
        if letters > 0 {
            return finding("webhooks", "\(letters) messages to webhooks were given up", "stalecast webhooks list")
        }
        return finding("webhooks", "\(count("active")) webhooks are active, none fails")
    }

    private var sources: SystemCheck.Finding? {
        let sources = status.items("sources")
        if sources.isEmpty { return nil }
        let failing = sources.filter { $0["error"]?["reason"] != nil }
        guard let first = failing.first else { return finding("sources", "all \(sources.count) sources answer") }
        let problem = first["error"]?["message"]?.string ?? first["error"]?.word("reason") ?? "?"
        return finding(
            "sources",
            "\(failing.count) of \(sources.count) sources fail, first \(TopicsReading.scope(first)): \(problem)",
            "stalecast sources")
    }

    private var clusterNode: SystemCheck.Finding? {
        guard let cluster else { return nil }
        let place = "node \(cluster.word("node")) of cluster \(cluster.word("name"))"
        let isWell = cluster["whole"]?.bool != false && cluster["ready"]?.bool != false
        return finding(
            "cluster", isWell ? "\(place) has the whole log" : "\(place) is behind the log, or cannot reach it",
            isWell ? nil : "stalecast cluster status")
    }
}
