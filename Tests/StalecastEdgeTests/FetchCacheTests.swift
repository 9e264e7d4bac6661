import StalecastEdge
import StalecastTemplate
import StalecastWire
import Testing

@Suite struct FetchCacheTests {
    private let one = LiveEdge.scope
    private let two = LiveEdge.other

    /// Instances that say `0`, `1` … differ in their outcomes.
    private static let template = CompiledTemplate(
        Template(
            conditions: (0..<12).map {
                TemplateCondition(name: "c\($0)", expression: "app.customSignal['s'].exactlyMatches(['\($0)'])")
            },
            parameters: [
                "p": TemplateParameter(
                    conditionalValues: Dictionary(
                        uniqueKeysWithValues: (0..<12).map { ("c\($0)", ParameterValue.value("\($0)")) }))
            ]))
    private let outcomes = (0..<12).map {
        Self.template.outcome(for: EvaluationContext(customSignals: ["s": "\($0)"], now: Timestamp(microseconds: 0)))
    }

    private func rendering(_ size: Int) -> FetchRendering {
        let template = CompiledTemplate(.of(["a": String(repeating: "x", count: size)]))
        let renderer = FetchRenderer(ReadyTemplate(template), version: 1, scope: one, projectNumber: 1)
        return renderer.rendering(of: template.outcome(for: EvaluationContext(now: Timestamp(microseconds: 0))))
    }

    /// Bytes of a rendering and of the outcome it is kept for.
    private func bytes(_ size: Int) -> Int { rendering(size).byteCount + 2 * outcomes[0].byteCount }

    @Test func anOutcomeIsFoundUntilANewVersionBegins() {
        let cache = RenderingCache()
        cache.begin(one, [1])
        cache.keep(rendering(10), of: outcomes[7], in: one, 1)
        #expect(
            cache.rendering(of: outcomes[7], in: one, 1) != nil && cache.rendering(of: outcomes[8], in: one, 1) == nil)
        #expect(cache.byteCount == bytes(10))
        cache.begin(one, [2])
        #expect(cache.rendering(of: outcomes[7], in: one, 2) == nil && cache.byteCount == 0)
    }

    @Test func whatWasRenderedForAnOldVersionIsNotKept() {
        let cache = RenderingCache()
        cache.begin(one, [2])
        cache.keep(rendering(10), of: outcomes[7], in: one, 1)
        #expect(cache.count == 0 && cache.rendering(of: outcomes[7], in: one, 1) == nil)
    }

    @Test func ofOneVersionTheFirstRenderedGoesFirst() {
        let cache = RenderingCache(maxOutcomes: 3)
        cache.begin(one, [1])
        for outcome in 0..<10 { cache.keep(rendering(10), of: outcomes[outcome], in: one, 1) }
        #expect((0..<10).filter { cache.rendering(of: outcomes[$0], in: one, 1) != nil } == [7, 8, 9])
        #expect(cache.byteCount == 3 * bytes(10))
    }

    @Test func beyondTheBytesTheOldestVersionGoesFirst() {
        let size = bytes(1000)
        let cache = RenderingCache(maxBytes: 4 * size)
        cache.begin(one, [1])
        cache.begin(two, [2])
        for outcome in 0..<3 { cache.keep(rendering(1000), of: outcomes[outcome], in: two, 2) }
        for outcome in 0..<3 { cache.keep(rendering(1000), of: outcomes[outcome], in: one, 1) }
        #expect(cache.byteCount <= 4 * size)
        #expect((0..<3).allSatisfy { cache.rendering(of: outcomes[$0], in: two, 2) != nil })
        #expect((0..<3).filter { cache.rendering(of: outcomes[$0], in: one, 1) != nil } == [2])
    }

    @Test func anAnswerLargerThanAllRoomIsServedButNotKept() {
        let cache = RenderingCache(maxBytes: 100)
        cache.begin(one, [1])
        cache.keep(rendering(1000), of: outcomes[1], in: one, 1)
        #expect(cache.count == 0 && cache.byteCount == 0)
    }

    /// One client asks for all outcomes, the others for one of them, again and again.
    @Test func whatIsAskedForStaysWhateverElseIs() {
        let cache = RenderingCache(maxOutcomes: 3)
        cache.begin(one, [1])
        cache.keep(rendering(10), of: outcomes[0], in: one, 1)
        for outcome in 1..<12 {
            #expect(cache.rendering(of: outcomes[0], in: one, 1) != nil)
            cache.keep(rendering(10), of: outcomes[outcome], in: one, 1)
        }
        #expect((0..<12).filter { cache.rendering(of: outcomes[$0], in: one, 1) != nil } == [0, 10, 11])
        #expect(cache.count == 3 && cache.byteCount == 3 * bytes(10))
    }

    /// A template of many rollouts has outcomes larger than its answers.
    @Test func outcomesCountToo() throws {
        let rollout = ParameterValue.rollout(["rolloutId": "r", "value": "", "percent": 0])
        let template = CompiledTemplate(
            Template(
                parameters: Dictionary(
                    uniqueKeysWithValues: (0..<2000).map { ("p\($0)", TemplateParameter(defaultValue: rollout)) })))
        let outcome = template.outcome(for: EvaluationContext(appInstanceID: "i", now: Timestamp(microseconds: 0)))
        let cache = RenderingCache()
        cache.begin(one, [1])
        cache.keep(rendering(10), of: outcome, in: one, 1)
        #expect(cache.byteCount > 2 * 2 * 2000)
    }
}
