import ArgumentParser
import StalecastWebhooks
import StalecastWire

extension Webhooks {
    struct Listen: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "listen",
            abstract: "Send versions to an app on this machine, or receive webhooks here and show them.",
            discussion: """
                With --forward-to each new version is sent to your app as a registered webhook would be: signed, and again until \
                the app answers 2xx; of versions that come meanwhile only the newest. Nothing is registered at the daemon, and no \
                address must be allowed there: this command watches Edge. The secret is another one in each run; --secret-file \
                takes one of your own.

                Without it this is a receiver for webhooks that you register: it answers 204, echoes challenges and grants \
                CloudEvents' OPTIONS. The daemon calls this machine only if allowed: \
                STALECAST_WEBHOOKS_ALLOWED_ADDRESSES=127.0.0.0/8 stalecast serve.

                Examples:
                  stalecast webhooks listen --forward-to http://127.0.0.1:3000/hook
                  stalecast webhooks listen                # on 127.0.0.1:9000
                  stalecast webhooks add http://127.0.0.1:9000/ --save-secret hook.secret
                  stalecast webhooks listen --secret-file hook.secret --count 1 --json
                  stalecast webhooks listen --status 503   # a receiver that fails
                """)

        @Option(help: .value("url", "Send new versions to this URL."))
        var forwardTo: String?

        @Option(help: .value("host:port", "Where to receive (default: 127.0.0.1:9000)."))
        var listen: String?

        @Option(
            help: .value("file", "Secret, or public key to check with (default: sign with a new one, check nothing)."),
            completion: .file())
        var secretFile: String?

        @Option(help: .value("code", "What received requests are answered with (default: 204)."))
        var status: Int?

        @Option(help: .value("number", "End after so many requests, or versions that the app took."))
        var count: Int?

        @OptionGroup var scopeOptions: ScopeOptions
        @OptionGroup var connection: EdgeOptions

        func validate() throws {
            guard status.map((200...599).contains) ?? true else { throw ValidationError("--status is 200 to 599") }
            if let count, count < 1 { throw ValidationError("--count is 1 or more") }
            guard forwardTo != nil, listen != nil || status != nil else { return }
            throw ValidationError(
                "--forward-to watches the daemon and receives nothing: leave --listen and --status out")
        }

        func run() async throws {
            if let forwardTo { try await forward(to: forwardTo) } else { try await receive() }
        }

        private func receive() async throws {
            let key = try secretFile.map { path throws(CommandFailure) in
                try SecretFile.key(path, VerificationKey.init)
            }
            let (output, status) = (connection.output, status ?? 204)
            let receiver = try WebhookReceiver(listen ?? "127.0.0.1:9000")
            output.remark(
                "listening on http://\(receiver.address)/, answering \(status)"
                    + (key == nil ? "; signatures are not checked" : ""))
            var seen = 0
            try await receiver.serve { request async throws(CommandFailure) in
                try Webhooks.Receipt(request, key: key).write(to: output)
                seen += 1
                return (request.answer(status: status), count.map { seen < $0 } ?? true)
            }
        }

        /// Watches the scope and sends each version on, until `--count` were taken.
        private func forward(to url: String) async throws {
            let (output, scope) = (connection.output, try scopeOptions.scope())
            let given = try secretFile.map { path throws(CommandFailure) in
                try SecretFile.key(path, SigningKey.init)
            }
            let key = given ?? .generate(.hmacSHA256)
            let forwarder = try WebhookForwarder(url, key, output)
            let secret = given == nil ? "; secret of this run: \(key.secretText)" : ""
            output.remark("new versions of \(scope) go to \(url)\(secret)")
            let line = Watcher.Line(palette: output.palette)
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    let request = Watcher.Request(topics: [scope.announcedTopic], scope: scope)
                    var watcher = Watcher(request, polls: false, address: connection.addressWithKey) { event in
                        if let remark = line.remark(event) { output.remark(remark) }
                        guard case .message(let data, let cursor) = event else { return }
                        if let version = ForwardedVersion(data, cursor: cursor) { forwarder.receive(version) }
                    }
                    try await watcher.run()
                }
                group.addTask { try await forwarder.run(limit: count) }
                defer { group.cancelAll() }
                try await group.next()
            }
        }
    }

    /// A request that was received, and what its signature is worth.
    fileprivate struct Receipt {
        private let request: ReceivedRequest
        /// `ok`, or why not; nil when it was not checked.
        private let signature: String?
        private let body: JSONValue?

        init(_ request: ReceivedRequest, key: VerificationKey?) {
            self.request = request
            body = JSONValue.ifValid(request.body)  // whatever it is, it is shown
            signature = key.map { key in
                do {
                    try SignatureCheck(key: key).verify(
                        messageID: request.headers["webhook-id"] ?? "",
                        timestamp: request.headers["webhook-timestamp"] ?? "",
                        signatures: request.headers["webhook-signature"] ?? "", body: request.body, at: .now())
                    return "ok"
                } catch {
                    return "\(error)"
                }
            }
        }

        func write(to output: Output) throws(CommandFailure) {
            if output.isJSON { return try output.jsonText(json.text()) }
            try output.line(
                "\(LocalClock.asked.date(.now())) \(request.method.printable) \(request.target.printable) \(about)"
            )
            if let signature {
                let isGood = signature == "ok"
                let text = isGood ? "the signature fits" : signature.printable
                try output.line("  \(isGood ? output.palette.green(text) : output.palette.red(text))")
            }
            if let body {
                for line in body.text(.pretty).split(separator: "\n") { try output.line("  " + String(line).printable) }
            }
        }

        /// `config.stale, version 7 since 6`.
        private var about: String {
            let type = body?["type"]?.string ?? request.headers["ce-type"] ?? ""
            guard let version = body?["data"]?["version"]?.int64 ?? body?["versionNumber"]?.int64 else {
                return type.printable
            }
            let since = body?["data"]?["sinceVersion"]?.int64.map { " since \($0)" } ?? ""
            return "\(type.printable), version \(version)\(since)"
        }

        private var json: JSONValue {
            var headers = JSONObject()
            for (name, value) in request.headers.sorted(by: { $0.key < $1.key }) { headers[name] = .string(value) }
            return [
                "method": .string(request.method), "target": .string(request.target), "headers": .object(headers),
                "body": body ?? .string(String(decoding: request.body, as: UTF8.self)),
                "signature": signature.map(JSONValue.string),
            ]
        }
    }
}
