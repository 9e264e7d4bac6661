import StalecastDaemon
import Testing

@Suite struct SystemCheckTests {
    @Test func aContainerIsNotBlamedForTheClockOfItsHost() {
        let check = SystemCheck(Configuration(), isInContainer: true)
        #expect(!check.findings.contains { $0.subject == "clock" && $0.command != nil })
    }
}
