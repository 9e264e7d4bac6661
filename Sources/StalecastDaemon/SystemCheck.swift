import CLinux
import Foundation
import StalecastAccess
import StalecastEdge
import StalecastOutbound
import StalecastStore
import StalecastWire

/// Checks which limits this machine sets to a daemon.
package struct SystemCheck {
    /// One thing that was looked at: how it is, and what repairs it.
    package struct Finding: Sendable {
        package let subject: String
        package let sentence: String
        /// Command for a shell, where the operator has to act.
        package let command: String?

        package init(subject: String, sentence: String, command: String? = nil) {
            (self.subject, self.sentence, self.command) = (subject, sentence, command)
        }
    }

    private let configuration: Configuration
    private let descriptors: UInt64
    private let proc: String
    /// Streams that should be possible.
    private let wanted: Int

    /// True in a container, whose fixed settings are the machine's.
    private let isContainer: Bool

    /// - Parameters:
    ///   - wanted: streams that should be possible; nil: those configured, else 10,000.
    ///   - process: the daemon's, whose limits hold; nil: this one's.
    ///   - proc: where the kernel tells.
    ///   - isContainer: whether this runs in one.
    package init(
        _ configuration: Configuration, wanted: Int? = nil, process: Int32? = nil, proc: String = "/proc",
        isContainer: Bool = Self.runsInContainer
    ) {
        (self.isContainer, self.configuration, self.proc) = (isContainer, configuration, proc)
        let configured = configuration.edge.settings.caps.connections
        self.wanted = wanted ?? (configured > 0 ? configured : 10_000)
        let running = process.flatMap { Self.descriptorLimit(Self.text("\(proc)/\($0)/limits")) }
        descriptors = running ?? stalecast_raise_descriptor_limit()
    }

    /// Everything but names, whose lookup may take seconds.
    package var findings: [Finding] {
        [descriptorFinding, backlogFinding, trackingFinding, tcpFinding, memoryFinding, clockFinding, diskFinding]
            .compactMap(\.self)
    }

    /// Docker, podman, Kubernetes and systemd-nspawn each leave a mark.
    package static var runsInContainer: Bool {
        let environment = ProcessInfo.processInfo.environment
        return environment["container"] != nil || environment["KUBERNETES_SERVICE_HOST"] != nil
            || ["/.dockerenv", "/run/.containerenv", "/run/systemd/container"]
                .contains { FileManager.default.fileExists(atPath: $0) }
    }

    /// One for each certificate that has expired, is not valid yet, or ends soon; the daemon's log says the same.
    package var certificates: [Finding] {
        configuration.certificates(at: Int(Date().timeIntervalSince1970)).map {
            Finding(
                subject: "certificate", sentence: $0.sentence, command: "stalecast tls check '\($0.file)'")
        }
    }

    /// Finding about the files of a store that no daemon has open; nil where there is none yet.
    package var store: Finding? {
        do throws(StoreError) {
            guard try TemplateStore.isReadable(in: configuration.data) else { return nil }
            return Finding(subject: "store", sentence: "the store in \(configuration.data) can be read")
        } catch {
            let command =
                if case .damaged = error {
                    "stalecast restore FILE --data '\(configuration.data)'  # FILE: the newest backup"
                } else { "ls -la '\(configuration.data)'" }
            return Finding(subject: "store", sentence: "the store cannot be read: \(error)", command: command)
        }
    }

    private var streams: Int { configuration.maxEdgeConnections(descriptors: descriptors) }

    private var descriptorFinding: Finding? {
        finding(
            "descriptors", "\(descriptors.grouped) descriptors: at most \(streams.grouped) streams",
            isLow: streams < wanted, "; raise LimitNOFILE", "ulimit -n \(max(1 << 20, wanted + 1024))")
    }

    private var backlogFinding: Finding? {
        number("net/core/somaxconn").map { somaxconn in
            finding(
                "backlog", "\(somaxconn.grouped) new connections may wait to be accepted (somaxconn)",
                isLow: somaxconn < 4096, ": of a rush of connections, more are lost and try again later",
                "sysctl -w net.core.somaxconn=4096")
        }
    }

    private var trackingFinding: Finding? {
        number("net/netfilter/nf_conntrack_max").map { most in
            finding(
                "conntrack", "the firewall tracks \(most.grouped) connections", isLow: most < wanted,
                ": those above that are dropped without a word",
                "sysctl -w net.netfilter.nf_conntrack_max=\(2 * wanted)")
        }
    }

    /// A publish puts a page into each stream's socket, and into all of them at once.
    private var tcpFinding: Finding? {
        // The third number is the most that all sockets may hold, in pages (tcp(7)).
        let words = Self.text("\(proc)/sys/net/ipv4/tcp_mem").split(whereSeparator: \.isWhitespace)
        let pages = words.compactMap { Int($0) }
        guard pages.count == 3 else { return nil }
        return finding(
            "tcp_mem", "\((pages[2] * Int(getpagesize()) >> 20).grouped) MiB may wait in sockets (tcp_mem)",
            isLow: pages[2] < wanted, ": less than a page for each of \(wanted.grouped) streams",
            "sysctl -w net.ipv4.tcp_mem='\(wanted) \(wanted * 3 / 2) \(wanted * 2)'")
    }

    private var memoryFinding: Finding? {
        let line = Self.text("\(proc)/meminfo").split(separator: "\n").first { $0.hasPrefix("MemTotal:") }
        guard let kilobytes = line?.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap({ Int($0) }) else {
            return nil
        }
        // The kernel takes about 4 kB for an idle socket.
        let room = kilobytes / 4
        return finding(
            "memory", "\((kilobytes >> 10).grouped) MiB hold the sockets of \(room.grouped) streams",
            isLow: room < wanted,
            ", fewer than \(wanted.grouped)", "free -m")
    }

    /// Finding about a limit; `warning` and `command` are for one that is too low.
    private func finding(
        _ subject: String, _ sentence: String, isLow: Bool, _ warning: String, _ command: String
    ) -> Finding {
        Finding(subject: subject, sentence: sentence + (isLow ? warning : ""), command: isLow ? command : nil)
    }

    private var clockFinding: Finding? {
        let state = stalecast_clock_is_synchronised()
        guard state == 1 || state == 0 else { return nil }
        return Finding(
            subject: "clock",
            sentence: state == 1
                ? "the clock is kept by a time service"
                : isContainer
                    ? "the clock is the host's; whether a time service keeps it cannot be seen from this container"
                    : "no time service keeps the clock: signatures and times in messages go wrong with it",
            command: state == 1 || isContainer ? nil : "timedatectl set-ntp true")
    }

    private var diskFinding: Finding? {
        var directory = URL(fileURLWithPath: configuration.data)
        while !FileManager.default.fileExists(atPath: directory.path) { directory.deleteLastPathComponent() }
        var status = statvfs()
        guard statvfs(directory.path, &status) == 0 else { return nil }
        let free = Int(status.f_bavail) * Int(status.f_frsize)
        let least = Int(configuration.store.minFreeSpace)
        // Room for a few publishes above the point where they are refused.
        let isLow = free < 4 * least
        let isFixed = status.f_flag & UInt(ST_RDONLY) != 0 || access(directory.path, W_OK) != 0
        return Finding(
            subject: "disk",
            sentence: isFixed
                ? "\(directory.path) cannot be written: nothing can be published"
                : "\((free >> 20).grouped) MiB are free on the disk of \(directory.path)"
                    + (free < least ? ": publishes are refused" : isLow ? ": publishes are refused soon" : ""),
            command: isFixed ? "ls -ld '\(directory.path)'" : isLow ? "df -h '\(directory.path)'" : nil)
    }

    /// The names that sources, webhooks and issuers of the configuration need, looked up.
    package var lookups: [Finding] {
        let urls =
            configuration.sources.scopes.flatMap { [$0.url, $0.fence.url].compactMap(\.self) }
            + configuration.webhooks.receivers.compactMap { $0.document["url"]?.string }
            + configuration.auth.issuers.flatMap { [$0.keys.location] + ($0.signIn == nil ? [] : [$0.issuer]) }
        // An address that is none was refused when the configuration was read.
        let hosts = Set(urls.compactMap { try? OutboundURL($0) }.filter { $0.addressLiteral == nil }.map(\.host))
        return hosts.sorted().map { host in
            let begun = ContinuousClock.now
            // The finding says that it cannot be looked up.
            let isKnown = (try? ListenAddress(host: host, port: 0).resolvedHost()) != nil
            let took = (ContinuousClock.now - begun) / .milliseconds(1)
            let isSlow = took > 1000
            return Finding(
                subject: "dns",
                sentence: isKnown
                    ? "\(host) was looked up in \(Int(took).grouped) ms" : "\(host) cannot be looked up",
                command: isKnown && !isSlow ? nil : "getent ahosts '\(host)'")
        }
    }

    private func number(_ name: String) -> Int? {
        Int(Self.text("\(proc)/sys/\(name)").trimmingCharacters(in: .whitespacesAndNewlines))
    }

    /// Empty where there is no such file: other systems, and kernels without the module.
    private static func text(_ path: String) -> String { (try? String(contentsOfFile: path, encoding: .ascii)) ?? "" }

    /// The hard limit of `/proc/PID/limits`, to which the daemon raises its own.
    private static func descriptorLimit(_ limits: String) -> UInt64? {
        let line = limits.split(separator: "\n").first { $0.hasPrefix("Max open files") }
        // Words of the line: Max, open, files, the soft limit, the hard limit.
        return line?.split(whereSeparator: \.isWhitespace).dropFirst(4).first.flatMap { UInt64($0) }
    }
}

extension BinaryInteger {
    /// Digits with commas between groups of three.
    fileprivate var grouped: String {
        let digits = Array(String(self))
        return digits.indices.reduce(into: "") { text, index in
            if index > 0, (digits.count - index).isMultiple(of: 3) { text += "," }
            text.append(digits[index])
        }
    }
}
