import Foundation
import StalecastClient
import StalecastWire

/// LaunchDarkly's protocol for testing server-sent events clients, for the client of the SDK: a harness tells this
/// process over HTTP which streams to open, and is told over HTTP what came out of them. Beside the protocol,
/// `POST /connections` opens a ``ConnectionCrowd``, `POST /apps` an ``AppCrowd``; `GET` of its location says where its
/// members are.
///
///     stalecast-contract-service [PORT] [--url-session]
///     stalecast-contract-service --exit-after MICROSECONDS URL
///
/// PORT is 8000 unless given; 0 takes a free one. With `--url-session` streams go over Foundation's `URLSession`, as
/// they do on Apple's systems. The one line on standard output names the address. The second form exits so
/// long after the first event of eight connections, which live on.
@main
final class ContractService: Sendable {
    /// Abilities of the client, in the words of the protocol.
    static let capabilities = [
        "bom", "comments", "event-type-listeners", "headers", "last-event-id", "post", "read-timeout", "report",
        "restart", "server-directed-shutdown-request",
    ]

    private static let urlSessionFlag = "--url-session"

    private let lock = NSLock()
    private let usesURLSession = CommandLine.arguments.contains(urlSessionFlag)
    /// Reached under `lock` only.
    nonisolated(unsafe) private var sessions: [Int: StreamSession] = [:]
    nonisolated(unsafe) private var crowds: [Int: any Crowd] = [:]
    nonisolated(unsafe) private var lastNumber = 0

    static func main() throws {
        let arguments = CommandLine.arguments.dropFirst()
        if arguments.first == "--exit-after" { exitWithClients(arguments.dropFirst()) }
        let argument = arguments.first { $0 != urlSessionFlag } ?? "8000"
        guard let port = UInt16(argument) else {
            FileHandle.standardError.write(Data("\(argument) is not a port; give a number of 0 to 65535\n".utf8))
            exit(2)
        }
        // A harness that hangs up early must not end us.
        signal(SIGPIPE, SIG_IGN)
        let service = ContractService()
        let server = try ContractServer(port: port) { service.answer($0) }
        FileHandle.standardOutput.write(Data("http://127.0.0.1:\(server.port)\n".utf8))
        server.run()
        service.stop()
    }

    private static func exitWithClients(_ arguments: ArraySlice<String>) -> Never {
        guard let wait = arguments.first.flatMap({ UInt32($0) }), let url = arguments.last.flatMap({ URL(string: $0) })
        else { exit(2) }
        let began = DispatchSemaphore(value: 0)
        let connections = (0..<8).map { _ in
            StaleConnection(endpoint: url, topics: ["PUSH_RC"]) { _ in began.signal() }
        }
        for connection in connections { connection.start() }
        began.wait()
        usleep(wait)
        withExtendedLifetime(connections) { exit(0) }
    }

    private func stop() {
        let (sessions, crowds) = lock.withLock { (self.sessions.values, self.crowds.values) }
        for session in sessions { session.stop() }
        for crowd in crowds { crowd.stop() }
    }

    private func answer(_ request: ContractServer.Request) -> ContractServer.Answer {
        switch (request.method, request.path) {
        case ("GET", "/"): return .json(200, ["capabilities": .array(Self.capabilities.map(JSONValue.string))])
        case ("POST", "/"): return open(request)
        case ("DELETE", "/"): return ContractServer.Answer(status: 204, isLast: true)
        case ("POST", "/connections"): return openCrowd(request) { try ConnectionCrowd($0) }
        case ("POST", "/apps"): return openCrowd(request) { try AppCrowd($0) }
        default:
            guard let number = request.path.split(separator: "/").last.flatMap({ Int($0) }) else { return .notFound }
            if let crowd = lock.withLock({ crowds[number] }) { return answer(request, crowd, number) }
            return request.method == "DELETE" ? close(number) : command(number, request)
        }
    }

    private func openCrowd(
        _ request: ContractServer.Request, _ make: (JSONValue) throws -> any Crowd
    ) -> ContractServer.Answer {
        do {
            let crowd = try make(JSONValue.parse(request.body))
            let number = lock.withLock {
                lastNumber += 1
                crowds[lastNumber] = crowd
                return lastNumber
            }
            // With a thousand members it takes seconds, longer than a harness waits for an answer.
            Thread.detachNewThread { crowd.start() }
            return ContractServer.Answer(status: 201, headers: ["Location": "/connections/\(number)"])
        } catch {
            return .json(400, ["error": .string("\(error)")])
        }
    }

    private func answer(
        _ request: ContractServer.Request, _ crowd: any Crowd, _ number: Int
    ) -> ContractServer.Answer {
        switch request.method {
        case "GET": return .json(200, crowd.summary)
        case "DELETE":
            _ = lock.withLock { crowds.removeValue(forKey: number) }
            crowd.stop()
            return ContractServer.Answer(status: 204)
        default:
            // A body that is no JSON names nothing that happened, which is answered below.
            let happened = (try? JSONValue.parse(request.body))?["happened"]?.string
            if let happened, crowd.happened(happened) { return ContractServer.Answer(status: 202) }
            return .json(400, ["error": "happened is networkChanged, background or foreground"])
        }
    }

    private func open(_ request: ContractServer.Request) -> ContractServer.Answer {
        do {
            let session = try StreamSession(try JSONValue.parse(request.body), usesURLSession: usesURLSession)
            let number = lock.withLock {
                lastNumber += 1
                sessions[lastNumber] = session
                return lastNumber
            }
            session.start()
            return ContractServer.Answer(status: 201, headers: ["Location": "/streams/\(number)"])
        } catch {
            return .json(400, ["error": .string("\(error)")])
        }
    }

    private func close(_ number: Int) -> ContractServer.Answer {
        guard let session = lock.withLock({ sessions.removeValue(forKey: number) }) else { return .notFound }
        session.stop()
        return ContractServer.Answer(status: 204)
    }

    private func command(_ number: Int, _ request: ContractServer.Request) -> ContractServer.Answer {
        guard let session = lock.withLock({ sessions[number] }) else { return .notFound }
        // A body that is no JSON names no command, which is answered below.
        let command = try? JSONValue.parse(request.body)
        switch command?["command"]?.string {
        case "restart": session.restart()
        // Events of every type are reported anyway.
        case "listen": break
        default: return .json(400, ["error": "the commands are restart and listen"])
        }
        return ContractServer.Answer(status: 202)
    }
}
