import ArgumentParser
import Foundation
import NIOSSL
import StalecastDaemon
import StalecastHTTP
import StalecastWire

struct TLS: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tls",
        abstract: "Look at certificates, or make one to try TLS out.",
        discussion: """
            Examples:
              stalecast tls check config.example.com:8443
              stalecast tls dev --to tls
            """,
        subcommands: [TLS.Check.self, TLS.Dev.self])
}

extension TLS {
    struct Check: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "check",
            abstract: "Show the certificates of a server or a file: names, key, days left.",
            discussion: """
                A server is asked as a client would, and has to be trusted: by the system's authorities, or those of \
                --ca-file. Of a file only the dates are judged, not whether a client would trust it. The exit code is \
                1 when a server is not trusted, or a certificate has expired, is not valid yet, or ends within --days.

                Examples:
                  stalecast tls check config.example.com:8443
                  stalecast tls check /etc/stalecast/tls.pem --days 30
                  stalecast tls check --ca-file ca.pem --json localhost:8080
                """)

        @Argument(help: .value("target", "HOST:PORT, https://HOST, or a PEM file."), completion: .file())
        var target: String

        @Option(
            help: .value("file", "PEM file of a server's authorities (default: the system's)."), completion: .file())
        var caFile: String?

        @Option(help: "Fail when a certificate has fewer days left.")
        var days = 7

        @OptionGroup var outputOptions: OutputOptions

        func run() async throws {
            let probe = try await makeProbe()
            let now = Int(Date().timeIntervalSince1970)
            let faults = probe.chain.compactMap { $0.fault(at: now) }
            let least = probe.chain.map { $0.daysLeft(at: now) }.min() ?? 0
            var problems = (probe.problem.map { ["not trusted: \($0)"] } ?? []) + faults
            if faults.isEmpty, least < days { problems.append("only \(least) day\(least == 1 ? "" : "s") left") }
            try report(probe, problems, now)
            if !problems.isEmpty { throw ExitCode(ExitStatus.refused.rawValue) }
        }

        private func makeProbe() async throws(CommandFailure) -> TLSProbe {
            if FileManager.default.fileExists(atPath: target) {
                if caFile != nil {
                    throw CommandFailure(.usage, "--ca-file is for a server; of a file only the dates are judged")
                }
                let bytes = Array(try InputFile.read(target))
                do { return try TLSProbe(file: bytes, name: target) } catch {
                    throw CommandFailure(.refused, "\(error)")
                }
            }
            guard let (host, port) = Self.place(target) else {
                throw CommandFailure(.usage, "\"\(target)\" is no file here, and no HOST:PORT such as localhost:8443")
            }
            let roots = try roots()
            do { return try await TLSProbe(host: host, port: port, roots: roots) } catch {
                throw CommandFailure(.unreachable, "\(error)")
            }
        }

        /// `HOST:PORT`, also as a browser shows it: `https://HOST` or `https://HOST:PORT/`.
        private static func place(_ target: String) -> (host: String, port: Int)? {
            let isURL = target.lowercased().hasPrefix("https://")
            guard let parts = URLComponents(string: isURL ? target : "https://\(target)"),
                let host = parts.host?.trimmingCharacters(in: ["[", "]"]), !host.isEmpty,
                let port = parts.port ?? (isURL ? 443 : nil), (1...65_535).contains(port)
            else { return nil }
            return (host, port)
        }

        private func roots() throws(CommandFailure) -> [NIOSSLCertificate]? {
            guard let caFile else { return nil }
            let bytes = Array(try InputFile.read(caFile))
            do { return try TLSIdentity.certificates(bytes, caFile) } catch {
                throw CommandFailure(.refused, "\(error)")
            }
        }

        private func report(_ probe: TLSProbe, _ problems: [String], _ now: Int) throws {
            let output = outputOptions.output
            if output.isJSON {
                return try output.json([
                    "target": .string(target), "isGood": .bool(problems.isEmpty),
                    "problems": .array(problems.map(JSONValue.string)),
                    "certificates": .array(
                        probe.chain.map { certificate in
                            [
                                "names": .array(certificate.subjectNames.map(JSONValue.string)),
                                "key": .string(certificate.keyType), "daysLeft": .int(certificate.daysLeft(at: now)),
                                "notBefore": .string(Timestamp(seconds: certificate.notValidBefore).description),
                                "notAfter": .string(Timestamp(seconds: certificate.notValidAfter).description),
                            ]
                        }),
                    "version": probe.version.map(JSONValue.string),
                ])
            }
            for (index, certificate) in probe.chain.enumerated() {
                let own = certificate.subjectNames
                let names = own.isEmpty ? "an authority" : own.joined(separator: ", ")
                let dates = certificate.fault(at: now) ?? "\(certificate.daysLeft(at: now)) days left"
                try output.line("\(index + 1)  \(names.printable), \(certificate.keyType), \(dates)")
            }
            if let version = probe.version, probe.problem == nil { try output.line("ok  trusted, \(version)") }
            for problem in problems { try output.line("\(output.palette.red("!!"))  \(problem)") }
        }
    }

    struct Dev: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "dev",
            abstract: "Make a certificate for localhost, and an authority that clients can trust.",
            discussion: """
                Writes ca.pem, localhost.pem and localhost.key. The authority's key is not kept: nothing else can be \
                certified with it. For trying things out; a public server needs a certificate of a public authority.

                Examples:
                  stalecast tls dev --to tls
                  stalecast serve --tls-cert tls/localhost.pem --tls-key tls/localhost.key
                  stalecast watch --ca-file tls/ca.pem
                """)

        @Option(help: .value("dir", "Directory to write to; made if it is not there."), completion: .directory)
        var to: String

        @Option(help: .value("name", "A further DNS name or address; may be given several times."))
        var name: [String] = []

        @Flag(help: "Replace files that are there.")
        var force = false

        func validate() throws {
            for name in name where IPAddress(name) == nil {
                let isName = name.utf8.allSatisfy { $0.isASCIIAlphanumeric || "-.*".utf8.contains($0) }
                if name.isEmpty || !isName { throw ValidationError("\"\(name)\" is neither a DNS name nor an address") }
            }
        }

        func run() throws {
            let paths = ["ca.pem", "localhost.pem", "localhost.key"].map { "\(to)/\($0)" }
            if !force, let there = paths.first(where: { FileManager.default.fileExists(atPath: $0) }) {
                throw CommandFailure(.refused, "\(there) is there already", advice: "Replace it with --force.")
            }
            do { try FileManager.default.createDirectory(atPath: to, withIntermediateDirectories: true) } catch {
                throw CommandFailure(.refused, "\(to) cannot be made (\(error.reason))")
            }
            let made = DevelopmentCertificate(names: name.map { $0.lowercased() })
            try OutputFile.write(Array(made.authority.utf8), to: paths[0], mode: 0o644)
            try OutputFile.write(Array(made.certificate.utf8), to: paths[1], mode: 0o644)
            try OutputFile.write(Array(made.key.utf8), to: paths[2], mode: 0o600)
            let output = Output(isJSON: false, palette: Palette(isOn: false))
            let places = (name + ["localhost", "127.0.0.1", "::1"]).joined(separator: ", ")
            try output.line("for \(places), \(DevelopmentCertificate.days) days:")
            try output.line("  stalecast serve --tls-cert \(paths[1]) --tls-key \(paths[2])")
            try output.line("  stalecast watch --ca-file \(paths[0])")
        }
    }
}

extension NIOSSLCertificate {
    /// Whole days, below 0 when it has expired, were it a second ago.
    fileprivate func daysLeft(at now: Int) -> Int {
        let seconds = Int(notValidAfter) - now
        return seconds / 86_400 - (seconds < 0 ? 1 : 0)
    }

    /// Fault of the certificate at that second since 1970, such as `expired 3 hours ago`; nil when it is valid.
    fileprivate func fault(at now: Int) -> String? {
        if now >= Int(notValidAfter) { return "expired \(CertificateTerm.spelled(now - Int(notValidAfter))) ago" }
        if now >= Int(notValidBefore) { return nil }
        return "not valid before \(LocalClock.asked.date(Timestamp(seconds: notValidBefore)))"
    }
}

extension Timestamp {
    /// - Parameter seconds: since 1970.
    fileprivate init(seconds: time_t) { self.init(microseconds: Int64(seconds) * 1_000_000) }
}
