import StalecastAccess
import StalecastWire
import Testing

@Suite struct AuditChainTests {
    private static func log(_ count: Int) -> [[UInt8]] {
        var chain = AuditChain()
        return (0..<count).map { chain.append(["action": "publish", "n": .int($0)]) }
    }

    /// The number of the line that is broken, from 1; nil for a sound log.
    private static func fault(_ lines: [[UInt8]], hasLineFeed: Bool = true) -> Int? {
        var chain = AuditChain()
        for (index, line) in lines.enumerated() {
            do throws(AuditChain.Fault) { try chain.check(line) } catch { return index + 1 }
        }
        do throws(AuditChain.Fault) { try chain.checkEnd(hasLineFeed: hasLineFeed) } catch { return lines.count }
        return nil
    }

    @Test func anUntouchedLogIsSound() { #expect(Self.fault(Self.log(5)) == nil && Self.fault([]) == nil) }

    @Test func everyChangedByteIsSeen() {
        let log = Self.log(3)
        for index in log[1].indices {
            var lines = log
            lines[1][index] ^= 1
            #expect(Self.fault(lines) != nil, "byte \(index)")
        }
    }

    @Test func aLineThatIsGoneSwappedOrAddedIsSeen() {
        let log = Self.log(4)
        #expect(Self.fault([log[0], log[2], log[3]]) == 2)
        #expect(Self.fault([log[0], log[2], log[1], log[3]]) == 2)
        #expect(Self.fault([log[0], log[0], log[1]]) == 2)
        #expect(Self.fault(Array(log.dropFirst())) == 1)
    }

    @Test func aFileThatGoesOnMayBeTheFirstThatIsLeft() throws {
        var (written, lines) = (AuditChain(), [[UInt8]]())
        for action in ["publish", "publish", AuditChain.rotated, "publish"] {
            lines.append(written.append(["action": .string(action)]))
        }
        var chain = AuditChain()
        #expect(try chain.begin(with: lines[2]) == 3)
        for line in lines.dropFirst(2) { try chain.check(line) }
        #expect(chain.hash == written.hash && chain.count == 4)
        var other = AuditChain()
        #expect(throws: AuditChain.Fault.self, "a head that was cut off") { try other.begin(with: lines[1]) }
        #expect(try other.begin(with: lines[0]) == 1)
        #expect(try other.begin(with: Array("{".utf8)) == 1)
    }

    @Test func aLogGoesOnAfterItsLastLine() throws {
        var log = Self.log(3)
        var chain = AuditChain()
        try chain.resume(after: log[2])
        log.append(chain.append(["action": "send"]))
        #expect(chain.count == 4 && Self.fault(log) == nil)
    }

    @Test(arguments: [Int64.max, Int64.max - 1, 1 << 53, 0, -1]) func anImpossibleNumberIsNoLine(number: Int64) {
        var chain = AuditChain()
        let line: JSONObject = ["seq": .string(String(number)), "action": "publish"]
        #expect(throws: AuditChain.Fault.self) { try chain.resume(after: JSONValue.object(line).encoded()) }
        #expect(chain.append(["action": "send"]).isEmpty == false)
    }

    @Test func aLineCutOffInTheMiddleStaysAndIsAccountedFor() throws {
        var log = Self.log(3)
        let rest = Array(log.removeLast().prefix(20))
        #expect(Self.fault(log + [rest], hasLineFeed: false) == nil, "killed while it wrote")
        #expect(Self.fault(log + [rest]) == 3, "a whole line of nonsense")
        var chain = AuditChain()
        try chain.resume(after: log[1])
        chain.resume(afterTorn: rest)
        let recovered = chain.append(["action": .string(AuditChain.recovered)])
        let next = chain.append(["action": "publish"])
        #expect(Self.fault(log + [rest, recovered, next]) == nil)
        #expect(Self.fault(log + [rest, next]) == 4)
        #expect(Self.fault(log + [rest, [], recovered, next]) == nil, "a line feed went out alone")
        #expect(Self.fault([log[0], [], log[1]]) == 3, "no line is empty by itself")
        #expect(Self.fault(log + [Array(rest.dropLast()), recovered, next]) == 4, "the rest was changed")
    }
}
