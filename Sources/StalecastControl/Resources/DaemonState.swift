import StalecastHTTP
import StalecastWire

extension Call {
    func status() async -> Answer { Answer(await control.reports.status()) }

    func timeline() async -> Answer { Answer(await control.reports.timeline()) }

    func openAPI() -> Answer { Answer(ControlDocument.json(version: control.configuration.version)) }

    func metrics() async -> Answer {
        Answer(
            contentType: "text/plain; version=0.0.4; charset=utf-8", body: Array(await control.reports.metrics().utf8))
    }

    func health() -> Answer { Answer(contentType: "text/plain; charset=utf-8", body: Array("ok\n".utf8)) }

    func readiness() async -> Answer {
        let reasons = await control.reports.readiness().map(shown)
        let degraded = control.reports.degraded().map(shown)
        return Answer(
            status: reasons.isEmpty ? 200 : 503,
            [
                "ready": .bool(reasons.isEmpty),
                "reasons": reasons.isEmpty ? nil : .texts(reasons),
                "degraded": degraded.isEmpty ? nil : .texts(degraded),
            ])
    }

    /// A reason as the caller may see it: behind the colon of the sentence are addresses and paths, which are not for
    /// strangers.
    private func shown(_ reason: String) -> String {
        if principal != nil { return reason }
        return reason.firstRange(of: ": ").map { String(reason[..<$0.lowerBound]) } ?? reason
    }
}
