import CCurl

/// A request from submission to completion. Touched by the engine's thread alone once it is submitted.
final class RunningRequest: @unchecked Sendable {
    let ticket: OutboundEngine.Ticket
    let request: OutboundRequest
    let completion: @Sendable (OutboundOutcome) -> Void
    /// For a streamed body: called without bytes at the end of the head; false ends the request.
    let onBytes: (@Sendable (_ status: Int, _ bytes: [UInt8]) -> Bool)?
    /// On the monotonic clock, in nanoseconds.
    let submittedAt: UInt64
    var startedAt: UInt64 = 0
    /// Of the host, once they were looked up, and how long that took in nanoseconds; empty while it goes without.
    var addresses: [IPAddress] = []
    var lookupTime: UInt64 = 0
    var handle: EasyHandle?
    var isCancelled = false

    init(
        _ ticket: OutboundEngine.Ticket, _ request: OutboundRequest, at time: UInt64,
        onBytes: (@Sendable (Int, [UInt8]) -> Bool)? = nil, completion: @escaping @Sendable (OutboundOutcome) -> Void
    ) {
        self.ticket = ticket
        self.request = request
        submittedAt = time
        self.onBytes = onBytes
        self.completion = completion
    }

    /// Prepares a handle for this request.
    func take(_ handle: EasyHandle, at time: UInt64) throws(OutboundFailure) {
        try handle.prepare(request, addresses: addresses, spent: .nanoseconds(lookupTime))
        startedAt = time - lookupTime
        self.handle = handle
        let transfer = handle.transfer
        transfer.pointee.context = Unmanaged.passUnretained(self).toOpaque()
        transfer.pointee.guard = { context, address, length, port in
            guard let context, let address else { return false }
            let running = Unmanaged<RunningRequest>.fromOpaque(context).takeUnretainedValue()
            let bytes = Array(UnsafeBufferPointer(start: address, count: length))
            guard let address = IPAddress(bytes: bytes) else { return false }
            return running.request.policy.allowsDialling(address, port: Int(port))
        }
        guard onBytes != nil else { return }
        transfer.pointee.on_bytes = { context, status, bytes, count in
            guard let context else { return false }
            let running = Unmanaged<RunningRequest>.fromOpaque(context).takeUnretainedValue()
            return running.onBytes?(Int(status), Array(UnsafeBufferPointer(start: bytes, count: count))) ?? false
        }
    }
}
