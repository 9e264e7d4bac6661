import CCurl
import Testing

/// Tests how the handles of an engine share the connections that it keeps.
@Suite struct KeptConnectionTests {
    /// Opens a connection to each of so many hosts, spread unevenly over the handles.
    ///
    /// - Returns: connections that were closed to make room, and those that stay.
    private func connect(hosts: Int, kept: Int, handles: Int) -> (closed: Int, open: Int) {
        var (closed, open) = (0, stalecast_curl_counts())
        var sockets = [Int32](repeating: 0, count: handles)
        for host in 0..<hosts {
            // Of three hosts two are in the first half of the handles.
            let handle = host % 3 == 2 ? handles / 2 + host % (handles / 2) : host % (handles / 2)
            withUnsafeMutablePointer(to: &open) { counts in
                var budget = stalecast_curl_budget(counts: counts, kept: kept, handles: Int32(handles))
                let most = stalecast_curl_kept(&budget, sockets[handle])
                sockets[handle] += 1
                counts.pointee.sockets += 1
                guard Int(sockets[handle]) > most else { return }
                sockets[handle] -= 1
                counts.pointee.sockets -= 1
                closed += 1
            }
        }
        return (closed, Int(open.sockets))
    }

    @Test func aHandleWithManyHostsKeepsThemWhileThereIsRoom() {
        let (closed, open) = connect(hosts: 1000, kept: 1083, handles: 32)
        #expect(closed == 0 && open == 1000)
    }

    @Test func allHandlesTogetherKeepNoMoreThanTheyMay() {
        let (closed, open) = connect(hosts: 5000, kept: 1083, handles: 32)
        #expect(open <= 1083 && open > 1000)
        #expect(closed == 5000 - open)
    }

    @Test func aHandleMayAlwaysKeepOne() {
        var open = stalecast_curl_counts()
        open.sockets = 500
        withUnsafeMutablePointer(to: &open) { counts in
            var budget = stalecast_curl_budget(counts: counts, kept: 32, handles: 32)
            #expect(stalecast_curl_kept(&budget, 0) == 1)
            #expect(stalecast_curl_kept(&budget, 40) < 40)
        }
    }
}
