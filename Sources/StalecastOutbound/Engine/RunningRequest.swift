import CCurl
import Glibc
import StalecastWire

/// A request from submission to completion. Touched by the engine's thread alone once it is submitted.
final class RunningRequest: @unchecked Sendable {
    let ticket: OutboundEngine.Ticket
    let request: OutboundRequest
    let completion: @Sendable (OutboundOutcome) -> Void
    /// Receiver of a streamed body: called without bytes at the end of the head; false ends the request.
    let onBytes: (@Sendable (_ status: Int, _ bytes: [UInt8]) -> Bool)?
    /// Time of the submission on the monotonic clock, in nanoseconds.
    let submittedAt: UInt64
    var startedAt: UInt64 = 0
    /// Addresses of the host, once they were looked up, and the time that took in nanoseconds; empty while it goes
    /// without.
    var addresses: [IPAddress] = []
    var lookupTime: UInt64 = 0
    var handle: EasyHandle?
    /// Index among the requests under way.
    var place = 0
    var isCancelled = false

    var terms: OutboundTarget.Terms { request.target.terms }

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
            return running.terms.policy.allowsDialling(address, port: Int(port))
        }
        guard onBytes != nil else { return }
        transfer.pointee.on_bytes = { context, status, bytes, count in
            guard let context else { return false }
            let running = Unmanaged<RunningRequest>.fromOpaque(context).takeUnretainedValue()
            return running.onBytes?(Int(status), Array(UnsafeBufferPointer(start: bytes, count: count))) ?? false
        }
    }
}

extension RunningRequest {
    /// Outcome of a finished handle.
    func outcome(_ code: CURLcode) -> OutboundOutcome {
        guard let handle else { return OutboundOutcome(result: .failed(OutboundFailure(.cancelled))) }
        let easy = handle.easy
        let isReused = stalecast_easy_long(easy, CURLINFO_NUM_CONNECTS) == 0
        let status = Int(stalecast_easy_long(easy, CURLINFO_RESPONSE_CODE))
        let failure = failure(code, handle.transfer, status, easy)
        return OutboundOutcome(
            result: failure.map { .failed($0) } ?? answer(status, handle.transfer), phases: phases(easy, isReused),
            reusedConnection: isReused,
            remoteAddress: failure == nil ? "" : String(cString: stalecast_easy_text(easy, CURLINFO_PRIMARY_IP)))
    }

    /// Reference to a transfer: it is large, and there is one answer after the other.
    private typealias Transfer = UnsafeMutablePointer<stalecast_transfer>

    private func answer(_ status: Int, _ transfer: Transfer) -> OutboundOutcome.Result {
        let kept = transfer.pointee.kept
        let body = transfer.pointee.body.map { Array(UnsafeBufferPointer(start: $0, count: kept)) } ?? []
        return .answered(
            status: status, headers: terms.keptHeaders.isEmpty ? [:] : headers(transfer), body: body,
            truncated: transfer.pointee.total > kept && onBytes == nil)
    }

    private func headers(_ transfer: Transfer) -> [String: String] {
        var found: [String: String] = [:]
        for name in terms.keptHeaders {
            // A C string of each name would be a copy on the heap, for every answer.
            let value = name.utf8.withContiguousStorageIfAvailable { name in
                var length = 0
                let start = stalecast_transfer_header(transfer, name.baseAddress, name.count, &length)
                return start.map { UnsafeRawBufferPointer(start: $0, count: length) }
            }
            if let value = value.flatMap(\.self) { found[name] = String(decoding: value, as: UTF8.self) }
        }
        return found
    }

    /// libcurl's times count from the start; a part that did not happen is 0.
    private func phases(_ easy: UnsafeMutableRawPointer, _ isReused: Bool) -> OutboundOutcome.Phases {
        var phases = OutboundOutcome.Phases()
        phases.queue = Int64((startedAt - min(startedAt, submittedAt)) / 1000)
        let lookup = Int64(lookupTime / 1000)
        phases.total = lookup + stalecast_easy_time(easy, CURLINFO_TOTAL_TIME_T)
        if isReused {
            phases.server = serverTime(easy)
            return phases
        }
        let name = stalecast_easy_time(easy, CURLINFO_NAMELOOKUP_TIME_T)
        let connect = stalecast_easy_time(easy, CURLINFO_CONNECT_TIME_T)
        let secured = stalecast_easy_time(easy, CURLINFO_APPCONNECT_TIME_T)
        phases.dns = lookup + name
        phases.connect = max(0, connect - name)
        phases.tls = max(0, secured - connect)
        phases.server = serverTime(easy)
        return phases
    }

    private func serverTime(_ easy: UnsafeMutableRawPointer) -> Int64 {
        max(
            0,
            stalecast_easy_time(easy, CURLINFO_STARTTRANSFER_TIME_T)
                - stalecast_easy_time(easy, CURLINFO_PRETRANSFER_TIME_T))
    }

    /// Nil when there is an answer to give.
    private func failure(
        _ code: CURLcode, _ transfer: Transfer, _ status: Int, _ easy: UnsafeMutableRawPointer
    ) -> OutboundFailure? {
        if isCancelled { return OutboundFailure(.cancelled) }
        // A write error after a cut is this side's own: the body was longer than what is kept.
        if code == CURLE_OK || code == CURLE_WRITE_ERROR && transfer.pointee.cut { return nil }
        if transfer.pointee.too_large {
            return OutboundFailure(.tooLarge, detail: "more than \(terms.limits.maxBodyBytes) bytes")
        }
        return OutboundFailure(
            reason(code, transfer, easy), detail: String(cString: curl_easy_strerror(code)) + system(easy))
    }

    private func system(_ easy: UnsafeMutableRawPointer) -> String {
        let number = stalecast_easy_long(easy, CURLINFO_OS_ERRNO)
        return number == 0 ? "" : ", \(String(cString: strerror(Int32(number))))"
    }

    private func reason(
        _ code: CURLcode, _ transfer: Transfer, _ easy: UnsafeMutableRawPointer
    ) -> OutboundFailure.Reason {
        switch code {
        case CURLE_OPERATION_TIMEDOUT: isBlocked(transfer) ? .blocked : overdue(transfer, easy)
        case CURLE_COULDNT_RESOLVE_HOST: .dns
        case CURLE_COULDNT_CONNECT: isBlocked(transfer) ? .blocked : unconnected(easy)
        // The address guard is the only callback that aborts; cancelled requests were told apart before.
        case CURLE_ABORTED_BY_CALLBACK: .blocked
        case CURLE_PEER_FAILED_VERIFICATION: .tlsVerify
        case CURLE_SSL_CONNECT_ERROR, CURLE_SSL_CERTPROBLEM, CURLE_SSL_CIPHER, CURLE_SSL_CACERT_BADFILE,
            CURLE_SSL_ISSUER_ERROR:
            .tls
        case CURLE_GOT_NOTHING, CURLE_RECV_ERROR, CURLE_SEND_ERROR, CURLE_PARTIAL_FILE: .reset
        case CURLE_WEIRD_SERVER_REPLY, CURLE_UNSUPPORTED_PROTOCOL, CURLE_BAD_CONTENT_ENCODING: .badAnswer
        case CURLE_WRITE_ERROR: .cancelled
        default: .other
        }
    }

    /// Whether the guard refused every address. A host may also have an address that is allowed, and then the failure is
    /// that address's: it is tried again soon.
    private func isBlocked(_ transfer: Transfer) -> Bool { transfer.pointee.blocked && !transfer.pointee.opened }

    /// The part that took too long: the first that did not end.
    private func overdue(
        _ transfer: Transfer, _ easy: UnsafeMutableRawPointer
    ) -> OutboundFailure.Reason {
        if stalecast_easy_time(easy, CURLINFO_PRETRANSFER_TIME_T) > 0 { return .responseTimeout }
        if stalecast_easy_time(easy, CURLINFO_NAMELOOKUP_TIME_T) == 0, !transfer.pointee.opened { return .dnsTimeout }
        return stalecast_transfer_reached_peer(transfer) ? .tlsTimeout : .connectTimeout
    }

    private func unconnected(_ easy: UnsafeMutableRawPointer) -> OutboundFailure.Reason {
        switch Int32(stalecast_easy_long(easy, CURLINFO_OS_ERRNO)) {
        case ECONNREFUSED: .refused
        case ETIMEDOUT: .connectTimeout
        case ECONNRESET: .reset
        default: .unreachable
        }
    }
}
