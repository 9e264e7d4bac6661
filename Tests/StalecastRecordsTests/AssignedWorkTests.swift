import StalecastRecords
import StalecastTestSupport
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(5))) struct AssignedWorkTests {
    @Test func workEndsBeforeItsAssignmentIsHandedOver() async {
        let work = AssignedWork()
        let log = Mutex<[String]>([])
        work.set([
            "a": { token in
                log.withLock { $0.append("begin \(token)") }
                await untilCancelled()
                log.withLock { $0.append("end") }
            }
        ])
        work.worker.begin("other", 1)
        work.worker.begin("a", 7)
        await work.worker.finish("a", 7)
        #expect(log.withLock { $0 } == ["begin 7", "end"])
    }

    @Test func webhooksHaveAWorkerOfTheirOwnAndEndFirst() async {
        let work = AssignedWork()
        let log = Mutex<[String]>([])
        work.set(["a": { _ in }])
        let worker = AssignmentService.Worker { name, token in
            log.withLock { $0.append("begin \(name) \(token)") }
        } finish: { name, _ in
            log.withLock { $0.append("finish \(name)") }
        } lost: { name in
            log.withLock { $0.append("lost \(name)") }
        }
        work.set(webhooks: worker, ["w"])
        #expect(work.names == ["a", "w"])
        work.worker.begin("w", 3)
        work.endWebhooks()
        #expect(work.names == ["a"])
        await work.worker.finish("w", 3)
        work.worker.lost("w")
        #expect(log.withLock { $0 } == ["begin w 3", "finish w", "lost w"])
    }
}
