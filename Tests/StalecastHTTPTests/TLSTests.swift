import StalecastHTTP
import Testing

/// A stand-in for a connection.
private final class Guest {}

@Suite struct TLSTests {
    @Test func aNameChoosesItsCertificate() {
        let names = ServerNames([["a.example"], ["b.example", "*.b.example"], ["c.b.example", "a.example"]])
        #expect(names.index(for: "a.example") == 0)
        #expect(names.index(for: "B.Example.") == 1)
        #expect(names.index(for: "x.b.example") == 1)
        #expect(names.index(for: "c.b.example") == 2, "an own name goes before a wildcard")
        for stranger in [nil, "", ".", "example", "x.y.b.example", ".b.example", "*.b.example.x"] {
            #expect(names.index(for: stranger) == 0, "\(stranger ?? "no name")")
        }
    }

    @Test func handshakesBeyondThePlacesWaitInLine() {
        var line = HandshakeLine<Guest>()
        let guests = (0..<HandshakeLine<Guest>.places + 3).map { _ in Guest() }
        let begun = guests.filter { line.enter($0, at: 0) }
        #expect(begun.count == HandshakeLine<Guest>.places)
        let nobody = line.next(at: 0)
        #expect(nobody == nil)
        // One of those who wait goes away.
        line.leave(guests[begun.count])
        line.leave(guests[0])
        line.leave(guests[1])
        let next = (0..<3).map { _ in line.next(at: 5) }
        #expect(next[0] === guests[begun.count + 1])
        #expect(next[1] === guests[begun.count + 2])
        #expect(next[2] == nil)
    }

    @Test func aPlaceIsSafeUntilOthersWantIt() {
        var line = HandshakeLine<Guest>()
        let late = HandshakeLine<Guest>.patience
        let guests = (0..<HandshakeLine<Guest>.places).map { _ in Guest() }
        for (index, guest) in guests.enumerated() { _ = line.enter(guest, at: UInt64(index)) }
        #expect(line.overdue(at: 10 * late).isEmpty)
        let next = Guest()
        let mayBegin = line.enter(next, at: 100)
        #expect(!mayBegin)
        #expect(line.overdue(at: late - 1).isEmpty)
        #expect(line.overdue(at: late + 100).map(ObjectIdentifier.init) == [ObjectIdentifier(guests[0])])
        line.leave(guests[0])
        let seated = line.next(at: late + 100)
        #expect(seated === next)
        #expect(line.overdue(at: 10 * late).isEmpty)
    }

    @Test func anAddressHasSoManyArrivalsASecond() {
        var rates = ArrivalRates()
        let second: UInt64 = 1_000_000_000
        let admitted = (0..<100).filter { rates.admits(7, limit: 50, at: 3 * second + UInt64($0)) }
        #expect(admitted == Array(0..<50))
        let others = [
            rates.admits(8, limit: 50, at: 3 * second + 200), rates.admits(7, limit: 50, at: 4 * second),
            rates.admits(7, limit: 0, at: 5 * second),
        ]
        #expect(others == [true, true, false])
    }

    @Test func whatIsNoCertificateIsSaid() {
        let problem = #expect(throws: TLSProblem.self) {
            _ = try TLSIdentity(certificate: Array("nonsense".utf8), name: "a.pem", key: [], keyName: "a.key")
        }
        #expect(problem?.description.hasPrefix("a.pem holds no certificate in PEM") == true)
    }
}
