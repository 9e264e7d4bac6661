import NIOCore
import StalecastHTTP

/// One connection of the private listener. The order matters: a stranger's body is never read.
final class ControlConnection: RequestHandler {
    private let control: Control
    private let loop: any EventLoop
    private unowned let connection: HTTPConnection
    private var admission: Control.Admission?

    init(_ control: Control, _ loop: any EventLoop, _ connection: HTTPConnection) {
        self.control = control
        self.loop = loop
        self.connection = connection
    }

    func admit(_ head: RequestHead) throws(GoogleError) -> Int {
        do throws(GoogleError) {
            let admission = try control.admit(head)
            self.admission = admission
            return admission.maxBodyBytes
        } catch {
            control.tally.count("refused", status: error.code)
            throw error
        }
    }

    func serve(_ request: Request) {
        guard let admission else { preconditionFailure("a request is admitted before it is served") }
        // Ends by itself: what is being committed is not cancelled, and the listener waits for its connections.
        Task { [control, loop, connection] in
            let answer = await control.answer(to: request, admission)
            control.tally.count(admission.name, status: answer.status)
            loop.execute { connection.answer(answer) }
        }
    }

    func faulted(_ fault: ConnectionFault) { control.tally.count("refused", status: 400) }
    func becameWritable() {}
    func drain() {}
    func closed() {}
}
