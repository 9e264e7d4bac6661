import ArgumentParser
import Foundation
import NIOSSL
import StalecastDaemon
import StalecastHTTP
import StalecastWire

/// `stalecast tls …`: certificates.
struct TLS: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tls", abstract: "Look at certificates, or make one to try TLS out.",
        discussion: """
            Examples:
              stalecast tls check config.example.com:8443
              stalecast tls dev --to tls
            """,
        subcommands: [TLS.Check.self, TLS.Dev.self])
}

extension TLS {
    /// `stalecast tls check`: what a server or a file shows.
    struct Check: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "check",
            abstract: "Show the certificates of a server or a file: names, key, days left.",
            discussion: """
                A server is asked as a client would, and has to be trusted: by the system's authorities, or those of \
                --ca-file. The exit code is 1 when it is not, or when a certificate of the chain expires within --days.

                Examples:
                  stalecast tls check config.example.com:8443
                  stalecast tls check /etc/stalecast/tls.pem --days 30
                  stalecast tls check --ca-file ca.pem --json localhost:8080
                """)

        @Argument(help: ArgumentHelp("HOST:PORT, or a PEM file.", valueName: "target"), completion: .file())
        var target: String

        @Option(
            help: ArgumentHelp("PEM file of the authorities trusted (default: the system's).", valueName: "file"),
            completion: .file())
        var caFile: String?

        @Option(help: "Fewer days left than these are too few.")
        var days = 7

        @OptionGroup var outputOptions: OutputOptions

        func run() async throws {
            let probe = try await look()
            let now = Int(Date().timeIntervalSince1970)
            let left = probe.chain.map { (Int($0.notValidAfter) - now) / 86_400 }
            let least = left.min() ?? 0
            var problems = probe.problem.map { ["not trusted: \($0)"] } ?? []
            if least < days { problems.append(least < 0 ? "expired" : "only \(least) days left") }
            try report(probe, left, problems)
            if !problems.isEmpty { throw ExitCode(ExitStatus.refused.rawValue) }
        }

        private func look() async throws(CommandFailure) -> TLSProbe {
            do {
                if FileManager.default.fileExists(atPath: target) {
                    return try TLSProbe(file: Array(try InputFile.contents(of: target)), name: target)
                }
                guard let colon = target.lastIndex(of: ":"), let port = Int(target[target.index(after: colon)...]),
                    (1...65_535).contains(port)
                else {
                    throw CommandFailure(
                        .usage, "\"\(target)\" is no file here, and no HOST:PORT such as localhost:8443")
                }
                var host = String(target[..<colon])
                if host.hasPrefix("["), host.hasSuffix("]") { host = String(host.dropFirst().dropLast()) }
                return try await TLSProbe(host: host, port: port, roots: try roots())
            } catch let failure as CommandFailure {
                throw failure
            } catch {
                throw CommandFailure(error is TLSProblem ? .unreachable : .refused, "\(error)")
            }
        }

        private func roots() throws -> [NIOSSLCertificate]? {
            guard let caFile else { return nil }
            return try TLSIdentity.certificates(Array(try InputFile.contents(of: caFile)), caFile)
        }

        private func report(_ probe: TLSProbe, _ left: [Int], _ problems: [String]) throws {
            let output = outputOptions.output
            if output.isJSON {
                var object: JSONObject = [
                    "target": .string(target), "isGood": .bool(problems.isEmpty),
                    "problems": .array(problems.map(JSONValue.string)),
                    "certificates": .array(
                        zip(probe.chain, left).map { certificate, left in
                            [
                                "names": .array(certificate.subjectNames.map(JSONValue.string)),
                                "key": .string(certificate.keyType), "daysLeft": .int(left),
                                "notAfter": .string(
                                    Timestamp(microseconds: Int64(certificate.notValidAfter) * 1_000_000).description),
                            ]
                        }),
                ]
                object["version"] = probe.version.map(JSONValue.string)
                return try output.json(.object(object))
            }
            for (index, (certificate, left)) in zip(probe.chain, left).enumerated() {
                let own = certificate.subjectNames
                let names = own.isEmpty ? "an authority" : own.joined(separator: ", ")
                try output.line("\(index + 1)  \(names.printable), \(certificate.keyType), \(left) days left")
            }
            if let version = probe.version, probe.problem == nil { try output.line("ok  trusted, \(version)") }
            for problem in problems { try output.line("\(output.palette.red("!!"))  \(problem)") }
        }
    }

    /// `stalecast tls dev`: a certificate for this machine.
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

        @Option(
            help: ArgumentHelp("Directory to write to; made if it is not there.", valueName: "dir"),
            completion: .directory)
        var to: String

        @Option(help: ArgumentHelp("A further DNS name; may be given several times.", valueName: "name"))
        var name: [String] = []

        @Flag(help: "Replace files that are there.")
        var force = false

        func validate() throws {
            for name in name where !name.utf8.allSatisfy({ $0.isASCIIAlphanumeric || "-.*".utf8.contains($0) }) {
                throw ValidationError("\"\(name)\" is no DNS name")
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
            umask(0o022)
            try OutputFile.write(Array(made.authority.utf8), to: paths[0])
            try OutputFile.write(Array(made.certificate.utf8), to: paths[1])
            umask(0o077)
            try OutputFile.write(Array(made.key.utf8), to: paths[2])
            let output = Output(isJSON: false, palette: Palette(isOn: false))
            try output.line(
                "for \((name + ["localhost", "127.0.0.1", "::1"]).joined(separator: ", ")), \(DevelopmentCertificate.days) days:"
            )
            try output.line("  stalecast serve --tls-cert \(paths[1]) --tls-key \(paths[2])")
            try output.line("  stalecast watch --ca-file \(paths[0])")
        }
    }
}
