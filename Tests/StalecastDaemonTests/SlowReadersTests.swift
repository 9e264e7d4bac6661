import StalecastDaemon
import StalecastWire
import Testing

@Suite struct SlowReadersTests {
    private let first = Scope(project: try! ProjectID("demo"), namespace: .firebase)
    private let second = Scope(project: try! ProjectID("demo"), namespace: .firebaseServer)
    private let readers = SlowReaders()

    private func count(_ ages: [Int], at seconds: Int, _ unread: [Int?] = []) async -> (sum: Int?, looks: Int) {
        var looks = 0
        let scopes = zip([first, second], ages).map { ($0, age: Duration.seconds($1)) }
        let sum = await readers.count(scopes, at: UInt64(seconds) * 1_000_000_000) { scope in
            looks += 1
            return unread[scope == first ? 0 : 1]
        }
        return (sum, looks)
    }

    @Test func scopesAreCheckedEachTenSeconds() async {
        #expect(await count([], at: 1) == (0, 0), "no version, no slow reader")
        #expect(await count([60, 60], at: 100, [3, 4]) == (7, 2))
        #expect(await count([69, 69], at: 109) == (7, 0))
        #expect(await count([70, 70], at: 110, [1, 0]) == (1, 2))
    }

    @Test func aScopeThatIsNotKnownMakesNoFigure() async {
        #expect(await count([60, 60], at: 100, [3, nil]) == (nil, 2))
        #expect(await count([60, 60], at: 101, [9, 4]) == (7, 1), "the first has its result")
        #expect(await count([60, 60], at: 115, [nil, nil]) == (7, 2), "the last results stay")
    }

    @Test func aVersionIsCheckedWhenItsReadersHadTime() async {
        #expect(await count([4], at: 100) == (nil, 0))
        #expect(await count([5], at: 101, [2]) == (2, 1))
        #expect(await count([1], at: 160) == (2, 0))
        #expect(await count([1], at: 161) == (nil, 0), "publishes have come too fast for a minute")
    }
}
