import ArgumentParser
import StalecastWebhooks
import StalecastWire

extension Webhooks {
    struct NewSecret: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "new-secret",
            abstract: "Make a signing secret, for secretFiles of the configuration file or for tests.",
            discussion: """
                Needs no daemon. For ed25519 the public key, which the receiver gets, goes to standard error.

                Examples:
                  (umask 077; stalecast webhooks new-secret > hook.secret)
                  stalecast webhooks new-secret --algorithm ed25519
                """)

        @Option(help: "hmac-sha256 or ed25519.")
        var algorithm = "hmac-sha256"

        @OptionGroup var outputOptions: OutputOptions

        func run() throws {
            guard let algorithm = SigningKey.Algorithm(rawValue: algorithm) else {
                throw CommandFailure(.usage, "--algorithm is hmac-sha256 or ed25519, not \"\(self.algorithm)\"")
            }
            let key = SigningKey.generate(algorithm)
            let output = outputOptions.output
            try output.show(
                [
                    "algorithm": .string(algorithm.rawValue), "secret": .string(key.secretText),
                    "publicKey": key.publicText.map(JSONValue.string),
                ], [key.secretText])
            if let text = key.publicText, !output.isJSON { output.remark("public key: \(text)") }
        }
    }

    struct Sign: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "sign",
            abstract: "Sign a body as the daemon does, to try a receiver without one.",
            discussion: """
                Needs no daemon. Prints the three headers. With --lines every line of standard input is a JSON object \
                {"body", "id", "timestamp"}, the last two optional, and is answered with a line of JSON.

                Examples:
                  stalecast webhooks sign --secret-file hook.secret body.json > headers
                  curl -H @headers --data-binary @body.json http://127.0.0.1:3000/hook
                  stalecast webhooks sign --secret-file new.secret \\
                    --secret-file old.secret body.json
                """)

        @Argument(help: "File with the body; - reads standard input.")
        var body = "-"

        @Option(
            name: .customLong("secret-file"),
            help: .value("file", "File with a secret; repeatable, the current one first."))
        var secretFiles: [String]

        @Option(help: .value("text", "webhook-id (default: a random one)."))
        var id: String?

        @Option(help: .value("seconds", "webhook-timestamp, seconds since 1970 (default: now)."))
        var timestamp: Int64?

        @Flag(help: "Sign each line of standard input.")
        var lines = false

        @OptionGroup var outputOptions: OutputOptions

        func validate() throws {
            if secretFiles.isEmpty { throw ValidationError("--secret-file is missing") }
            if lines, body != "-" || secretFiles.contains("-") {
                throw ValidationError("--lines reads the bodies from standard input")
            }
        }

        func run() throws {
            let signer = try signer()
            let output = outputOptions.output
            if !lines {
                let headers = headers(Array(try InputFile.read(body)), id: id, timestamp: timestamp, signer)
                return try output.show(.object(Self.json(headers)), headers.map { "\($0.name): \($0.value)" })
            }
            while let line = readLine() {
                let headers = try answer(line, signer)
                try output.line(JSONValue.object(headers).text())
            }
        }

        private func signer() throws(CommandFailure) -> Signer {
            Signer(
                try secretFiles.map { file throws(CommandFailure) in
                    Signer.SecretKey(try SecretFile.key(file, SigningKey.init), createdAt: Timestamp(microseconds: 0))
                })
        }

        private func answer(_ line: String, _ signer: Signer) throws(CommandFailure) -> JSONObject {
            guard let request = JSONValue.ifValid(Array(line.utf8)), let body = request["body"]?.string else {
                throw CommandFailure(.refused, "a line is not a JSON object with a member \"body\"")
            }
            let headers = headers(
                Array(body.utf8), id: request["id"]?.string ?? id, timestamp: request["timestamp"]?.int64 ?? timestamp,
                signer)
            return Self.json(headers)
        }

        private static func json(_ headers: [(name: String, value: String)]) -> JSONObject {
            headers.reduce(into: [:]) { $0[$1.name] = .string($1.value) }
        }

        private func headers(
            _ body: [UInt8], id: String?, timestamp: Int64?, _ signer: Signer
        ) -> [(name: String, value: String)] {
            let id = id ?? MessageID.of("sign", nonce: Epoch.random().description)
            return signer.headers(id, body, at: timestamp)
        }
    }

    struct CheckSignature: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "check-signature",
            abstract: "Say whether a request was signed with a secret, and if not, why.",
            discussion: """
                Needs no daemon. The body must be exactly the bytes received.

                Example:
                  stalecast webhooks check-signature body.bin --secret-file hook.secret \\
                    --id msg_… --timestamp 1792000000 --signature 'v1,…'

                Exit codes: 0 one of the signatures fits, 1 none does or its time is wrong.
                """)

        @Argument(help: "File with the body; - reads standard input.")
        var body = "-"

        @Option(help: .value("file", "File with the secret, or with the public key (whpk_…)."), completion: .file())
        var secretFile: String

        @Option(help: .value("text", "webhook-id of the request."))
        var id: String

        @Option(help: .value("seconds", "webhook-timestamp of the request."))
        var timestamp: String

        @Option(help: .value("text", "webhook-signature of the request."))
        var signature: String

        @Flag(help: "Accept any time; without this flag a time more than 300 s from now is refused.")
        var anyTime = false

        @OptionGroup var outputOptions: OutputOptions

        func run() throws {
            let key = try SecretFile.key(secretFile, VerificationKey.init)
            let bytes = Array(try InputFile.read(body))
            do {
                try SignatureCheck(key: key).verify(
                    messageID: id, timestamp: timestamp, signatures: signature, body: bytes, at: anyTime ? nil : .now())
            } catch {
                throw CommandFailure(.refused, "\(error)")
            }
            try outputOptions.output.show(["fits": .bool(true)], ["the signature fits"])
        }
    }
}

extension Signer {
    /// The three header fields of a signed body.
    ///
    /// - Parameter seconds: since 1970; nil is now.
    func headers(_ id: String, _ body: [UInt8], at seconds: Int64? = nil) -> [(name: String, value: String)] {
        let now = Timestamp.now()
        let seconds = seconds ?? now.microseconds / 1_000_000
        let signatures = signatures(messageID: id, timestamp: seconds, body: body, at: now)
        return [("webhook-id", id), ("webhook-timestamp", String(seconds)), ("webhook-signature", signatures)]
    }
}

extension SecretFile {
    /// Key in a file of secrets or public keys.
    static func key<Key>(_ path: String, _ parse: (String) throws -> Key) throws(CommandFailure) -> Key {
        let text = try read(path)
        do {
            return try parse(text)
        } catch {
            throw CommandFailure(.refused, "\(path): \(error)")
        }
    }
}
