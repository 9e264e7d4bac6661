import CLinux
import Glibc

/// A named thread of its own for a loop that blocks.
enum LoopThread {
    private final class Body {
        let name: String
        let work: @Sendable () -> Void

        init(name: String, work: @escaping @Sendable () -> Void) {
            self.name = name
            self.work = work
        }
    }

    static func run(name: String, _ work: @escaping @Sendable () -> Void) {
        let body = Unmanaged.passRetained(Body(name: name, work: work))
        var thread = pthread_t()
        let error = pthread_create(
            &thread, nil,
            { raw in
                guard let raw else { return nil }
                let body = Unmanaged<Body>.fromOpaque(raw).takeRetainedValue()
                stalecast_name_thread(body.name)
                body.work()
                return nil
            }, body.toOpaque())
        precondition(error == 0, "no thread can be made: \(error)")
        pthread_detach(thread)
    }
}
