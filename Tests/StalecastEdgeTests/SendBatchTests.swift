import CLinux
import Glibc
import Testing

/// A kernel may be too old, or forbid it: then there is nothing to be tested.
private let isPermitted: Bool = {
    let batch = stalecast_batch_open()
    if let batch { stalecast_batch_close(batch) }
    return batch != nil
}()

/// Sends that the kernel gets together say of each socket what a send of its own would have said.
@Suite(.enabled(if: isPermitted, "the kernel has no io_uring, or forbids it")) struct SendBatchTests {
    private func pair() -> (ours: Int32, theirs: Int32) {
        var ends: [Int32] = [0, 0]
        precondition(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
        return (ends[0], ends[1])
    }

    @Test func eachSocketSaysWhatItTook() throws {
        let batch = try #require(stalecast_batch_open())
        defer { stalecast_batch_close(batch) }
        let message = Array("CONFIG_STATE".utf8)
        let (good, gone, full) = (pair(), pair(), pair())
        close(gone.theirs)
        let block = [UInt8](repeating: 0, count: 65_536)
        while stalecast_send(full.ours, block, block.count) > 0 {}
        defer { for fd in [good.ours, good.theirs, gone.ours, full.ours, full.theirs] { close(fd) } }
        var results = [Int](repeating: 0, count: Int(STALECAST_BATCH))
        message.withUnsafeBytes { bytes in
            // Over again: the ring goes round.
            for _ in 0..<10 {
                for _ in 0..<15 {
                    for fd in [good.ours, gone.ours, full.ours, -1] {
                        stalecast_batch_add(batch, fd, bytes.baseAddress, bytes.count)
                    }
                }
                #expect(stalecast_batch_send(batch, &results) == 60)
                for (place, result) in results.prefix(60).enumerated() {
                    #expect(result == [message.count, -Int(EPIPE), -Int(EAGAIN), -Int(EBADF)][place % 4])
                }
            }
        }
        #expect(stalecast_batch_send(batch, &results) == 0)
        var received = [UInt8](repeating: 0, count: 10_000)
        #expect(recv(good.theirs, &received, received.count, 0) == 150 * message.count)
        #expect(Array(received.prefix(message.count)) == message)
    }
}
