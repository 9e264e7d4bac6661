import StalecastEdge
import StalecastWire
import Testing

@Suite struct FetchCacheTests {
    private let one = LiveEdge.scope
    private let two = LiveEdge.other

    private func rendering(_ size: Int) -> FetchRendering {
        let content = FetchContent(members: ["entries": ["a": .string(String(repeating: "x", count: size))]])
        return FetchRendering(content, version: 1, scope: one, projectNumber: 1)
    }

    @Test func anOutcomeIsFoundUntilANewVersionBegins() {
        let cache = RenderingCache<Int>()
        cache.begin(one, 1)
        cache.keep(rendering(10), of: 7, in: one, 1)
        #expect(cache.rendering(of: 7, in: one, 1) != nil && cache.rendering(of: 8, in: one, 1) == nil)
        #expect(cache.byteCount == rendering(10).byteCount)
        cache.begin(one, 2)
        #expect(cache.rendering(of: 7, in: one, 2) == nil && cache.byteCount == 0)
    }

    @Test func whatWasRenderedForAnOldVersionIsNotKept() {
        let cache = RenderingCache<Int>()
        cache.begin(one, 2)
        cache.keep(rendering(10), of: 7, in: one, 1)
        #expect(cache.count == 0 && cache.rendering(of: 7, in: one, 1) == nil)
    }

    @Test func ofOneVersionTheFirstRenderedGoesFirst() {
        let cache = RenderingCache<Int>(maxOutcomes: 3)
        cache.begin(one, 1)
        for outcome in 0..<10 { cache.keep(rendering(10), of: outcome, in: one, 1) }
        #expect((0..<10).filter { cache.rendering(of: $0, in: one, 1) != nil } == [7, 8, 9])
        #expect(cache.byteCount == 3 * rendering(10).byteCount)
    }

    @Test func beyondTheBytesTheOldestVersionGoesFirst() {
        let size = rendering(1000).byteCount
        let cache = RenderingCache<Int>(maxBytes: 4 * size)
        cache.begin(one, 1)
        cache.begin(two, 2)
        for outcome in 0..<3 { cache.keep(rendering(1000), of: outcome, in: two, 2) }
        for outcome in 0..<3 { cache.keep(rendering(1000), of: outcome, in: one, 1) }
        #expect(cache.byteCount <= 4 * size)
        #expect((0..<3).allSatisfy { cache.rendering(of: $0, in: two, 2) != nil })
        #expect((0..<3).filter { cache.rendering(of: $0, in: one, 1) != nil } == [2])
    }

    @Test func anAnswerLargerThanAllRoomIsServedButNotKept() {
        let cache = RenderingCache<Int>(maxBytes: 100)
        cache.begin(one, 1)
        cache.keep(rendering(1000), of: 1, in: one, 1)
        #expect(cache.count == 0 && cache.byteCount == 0)
    }
}
