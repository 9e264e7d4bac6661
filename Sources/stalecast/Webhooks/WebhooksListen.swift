import ArgumentParser
import CLinux
import StalecastWebhooks
import StalecastWire

extension Webhooks {
    /// `stalecast webhooks listen`: a receiver to look at requests with.
    struct Listen: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "listen",
            abstract: "Receive webhooks here and show them, with the result of each signature check.",
            discussion: """
                A receiver for trying things out: it answers 204, echoes challenges and grants CloudEvents' OPTIONS. The \
                daemon calls this machine only if allowed: STALECAST_WEBHOOKS_ALLOWED_ADDRESSES=127.0.0.0/8 stalecast serve.

                Examples:
                  stalecast webhooks listen                # on 127.0.0.1:9000
                  stalecast webhooks add http://127.0.0.1:9000/ --save-secret hook.secret
                  stalecast webhooks listen --secret-file hook.secret --count 1 --json
                  stalecast webhooks listen --status 503   # a receiver that fails
                  stalecast webhooks listen --forward-to http://127.0.0.1:3000/hook
                """)

        @Option(help: .value("host:port", "Where to listen."))
        var listen = "127.0.0.1:9000"

        @Option(help: .value("file", "File with the secret or public key; without it signatures are not checked."))
        var secretFile: String?

        @Option(help: .value("url", "Pass requests on to this URL, and answer what it answers; 502 where it does not."))
        var forwardTo: String?

        @Option(help: .value("code", "What requests are answered with, without --forward-to."))
        var status = 204

        @Option(help: .value("number", "End after so many requests."))
        var count: Int?

        @OptionGroup var outputOptions: OutputOptions

        func validate() throws {
            guard (200...599).contains(status) else { throw ValidationError("--status is 200 to 599") }
            if let count, count < 1 { throw ValidationError("--count is 1 or more") }
        }

        func run() async throws {
            let key = try secretFile.map { path throws(CommandFailure) in
                try SecretFile.key(path, VerificationKey.init)
            }
            let output = outputOptions.output
            let forwarder = try forwardTo.map { url throws(CommandFailure) in try WebhookForwarder(url) }
            let receiver = try WebhookReceiver(listen)
            output.remark(
                "listening on http://\(receiver.address)/, "
                    + (forwardTo.map { "passing on to \($0)" } ?? "answering \(status)")
                    + (key == nil ? "; signatures are not checked" : ""))
            var seen = 0
            try await receiver.serve { request async throws(CommandFailure) in
                try Webhooks.Receipt(request, key: key).write(to: output)
                seen += 1
                let goesOn = count.map { seen < $0 } ?? true
                guard let forwarder else { return (request.answer(status: status), goesOn) }
                let (answer, outcome) = await forwarder.answer(to: request)
                output.remark(outcome)
                return (answer, goesOn)
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
