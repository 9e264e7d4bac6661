import StalecastWire
import CCurl
import Glibc

/// One of libcurl's easy handles, used for one request after the other; only what differs from the last is set.
final class EasyHandle {
    let easy: UnsafeMutableRawPointer
    let transfer: UnsafeMutablePointer<stalecast_transfer>
    /// The last request's.
    private var target: OutboundTarget?
    /// Turn in which it went back to the pool.
    var turn: UInt64 = 0
    /// Handle of the same bucket that went back to the pool before this one; nil outside of the pool.
    var older: EasyHandle?
    /// The target's URL in the form of libcurl, which is parsed once for each handle and not for each request.
    private var parsedURL: OpaquePointer?
    private var lastBody = Body.none
    private var limits: OutboundLimits?
    private var tls = TLSFiles()
    /// True while ``tls`` names no file.
    private var isPlain = true
    private var headers: HeaderList
    private var addresses: UnsafeMutablePointer<curl_slist>?

    /// Nil when memory is short.
    ///
    /// - Parameter text: memory in which the headers of one handle after the other are put together.
    init?(_ curl: UnsafeMutablePointer<stalecast_curl>, caFile: String?, _ text: HeaderText) {
        guard let easy = stalecast_easy_new(curl, caFile) else { return nil }
        self.easy = easy
        headers = HeaderList(text)
        transfer = stalecast_easy_transfer(easy)
    }

    deinit {
        stalecast_easy_free(easy)
        curl_url_cleanup(parsedURL)
        headers.free()
        curl_slist_free_all(addresses)
    }

    /// Sets everything of `request`. After a throw the handle is of no further use: some of it may be the last
    /// request's and some of it this one's.
    ///
    /// - Parameters:
    ///   - addresses: of its host, for a new connection; without them the request is one for a connection that is there.
    ///   - spent: what is gone of its time.
    /// - Throws: ``OutboundFailure`` when a certificate file cannot be read or libcurl refuses a value.
    func prepare(
        _ request: OutboundRequest, addresses: [IPAddress] = [], spent: Duration = .zero
    ) throws(OutboundFailure) {
        let terms = request.target.terms
        // Before anything is touched: what cannot be read must leave no half-set handle.
        let files = terms.tls == nil && isPlain ? nil : try TLSFiles(terms.tls, known: tls)
        stalecast_transfer_reset(transfer)
        if let files { try setTLS(files) }
        if request.target !== target { try set(request.target) }
        try setAddresses(addresses, of: terms.url)
        setLimits(spent == .zero ? terms.limits : terms.limits.after(spent))
        try setBody(request)
        try headers.set(request, easy)
    }

    private func set(_ new: OutboundTarget) throws(OutboundFailure) {
        let before = target?.terms
        transfer.pointee.is_literal = !new.terms.url.needsLookup
        // A handle that comes from another host has no connection to this one.
        if new.terms.policy != before?.policy || new.handleKey != key { stalecast_transfer_forget_peer(transfer) }
        if new.terms.url != before?.url { try setURL(new.terms.url) }
        if new.terms.method != before?.method { setMethod(new.terms.method) }
        target = new
    }

    var key: Int? { target?.handleKey }

    /// Sets the text as well: libcurl keeps the first URL's text otherwise, and names it in what it says.
    private func setURL(_ new: OutboundURL) throws(OutboundFailure) {
        guard let parsed = curl_url() else { throw OutboundFailure(.other, detail: "out of memory") }
        do throws(OutboundFailure) {
            guard curl_url_set(parsed, CURLUPART_URL, new.text, 0) == CURLUE_OK else {
                throw OutboundFailure(.other, detail: "out of memory")
            }
            try check(stalecast_easy_set_text(easy, CURLOPT_URL, new.text))
            try check(stalecast_easy_set_pointer(easy, CURLOPT_CURLU, UnsafeRawPointer(parsed)))
        } catch {
            // libcurl points to the former one.
            curl_url_cleanup(parsed)
            throw error
        }
        curl_url_cleanup(parsedURL)
        parsedURL = parsed
    }

    /// libcurl tries them in this order. They are for this request: one without addresses takes nothing from the cache,
    /// so that a name that leads elsewhere now is followed at once.
    private func setAddresses(_ known: [IPAddress], of url: OutboundURL) throws(OutboundFailure) {
        guard !known.isEmpty || addresses != nil else { return }
        let list = known.map { $0.isIPv4 ? "\($0)" : "[\($0)]" }.joined(separator: ",")
        let fresh = known.isEmpty ? nil : curl_slist_append(nil, "+\(url.host):\(url.port):\(list)")
        if fresh == nil, !known.isEmpty { throw OutboundFailure(.other, detail: "out of memory") }
        stalecast_easy_set_pointer(easy, CURLOPT_RESOLVE, fresh)
        stalecast_easy_set_long(easy, CURLOPT_DNS_CACHE_TIMEOUT, known.isEmpty ? 0 : -1)
        curl_slist_free_all(addresses)
        addresses = fresh
    }

    private func setLimits(_ new: OutboundLimits) {
        transfer.pointee.limit = new.maxBodyBytes
        transfer.pointee.fail_when_longer = new.overflow == .fail
        guard new != limits else { return }
        stalecast_easy_set_long(easy, CURLOPT_CONNECTTIMEOUT_MS, max(1, new.connectTimeout.milliseconds))
        // 0 is no limit to libcurl: a limit below a millisecond must not become none.
        stalecast_easy_set_long(easy, CURLOPT_TIMEOUT_MS, new.timeout > .zero ? max(1, new.timeout.milliseconds) : 0)
        stalecast_easy_set_long(easy, CURLOPT_BUFFERSIZE, new.maxBodyBytes > Self.shortBody ? 4096 : 1024)
        limits = new
    }

    /// Bytes up to which a body is short. libcurl allocates the buffer for each request, and CCurl keeps freed memory of up
    /// to 2 KiB in lists of the thread's own, which cost a fraction of the C library's heap.
    private static let shortBody = 4096

    private func setMethod(_ new: String) {
        stalecast_easy_set_long(easy, CURLOPT_NOBODY, new == "HEAD" ? 1 : 0)
        if new != "HEAD" { stalecast_easy_set_long(easy, CURLOPT_HTTPGET, 1) }
        // CURLOPT_HTTPGET makes libcurl forget the body too, so that the next one is set as a new one.
        stalecast_easy_set_text(easy, CURLOPT_CUSTOMREQUEST, new)
        lastBody = .none
    }

    private func setBody(_ request: OutboundRequest) throws(OutboundFailure) {
        switch request.content {
        case .none:
            // CURLOPT_HTTPGET sets CURLOPT_NOBODY back to 0, and a HEAD would wait for a body.
            if request.method != "HEAD" { stalecast_easy_set_long(easy, CURLOPT_HTTPGET, 1) }
            lastBody = .none
        case .own(let body):
            let isNew = lastBody != .copied
            try check(body.withUnsafeBytes { stalecast_easy_set_body(transfer, $0.baseAddress, $0.count, isNew) })
            lastBody = .copied
        case .shared(let body):
            let isNew = lastBody != .lent
            try check(stalecast_easy_lend_body(transfer, body.memory.baseAddress, body.bytes.count, isNew))
            lastBody = .lent
        }
    }

    /// Kind of memory that the last request had its body in.
    private enum Body { case none, copied, lent }

    /// Blobs: a file's name would have libcurl read it at each handshake, on this thread and blocking, and notice no
    /// replaced file on connections that are kept. For authorities it would also put the system's parsed certificates
    /// out of libcurl's only cache.
    private func setTLS(_ new: TLSFiles) throws(OutboundFailure) {
        guard new != tls else { return }
        try setBlob(CURLOPT_CAINFO_BLOB, new.authorities)
        try setBlob(CURLOPT_SSLCERT_BLOB, new.certificate)
        try setBlob(CURLOPT_SSLKEY_BLOB, new.key)
        let (peer, host) = new.trustsAnyServer ? (0, 0) : (1, 2)
        try check(stalecast_easy_set_long(easy, CURLOPT_SSL_VERIFYPEER, peer))
        try check(stalecast_easy_set_long(easy, CURLOPT_SSL_VERIFYHOST, host))
        tls = new
        isPlain = new == TLSFiles()
    }

    private func setBlob(_ option: CURLoption, _ file: LocalFile?) throws(OutboundFailure) {
        let bytes = file?.bytes
        try check(bytes.withBytes { stalecast_easy_set_blob(easy, option, $0.baseAddress, $0.count) })
    }

    private func check(_ code: CURLcode) throws(OutboundFailure) {
        guard code == CURLE_OK else { throw OutboundFailure(.other, detail: String(cString: curl_easy_strerror(code))) }
    }

    /// The files of a connection's TLS as they were read.
    private struct TLSFiles: Equatable {
        var authorities: LocalFile?
        var certificate: LocalFile?
        var key: LocalFile?
        var trustsAnyServer = false

        init() {}

        /// - Parameter known: what was read before; a file is read again when the path shows another one.
        init(_ tls: OutboundTLS?, known: TLSFiles) throws(OutboundFailure) {
            guard let tls else { return }
            trustsAnyServer = tls.trustsAnyServer
            do throws(LocalFile.Unreadable) {
                if let path = tls.caFile { authorities = try .current(path, known: known.authorities) }
                if let path = tls.certificateFile { certificate = try .current(path, known: known.certificate) }
                if let path = tls.keyFile { key = try .current(path, known: known.key) }
            } catch {
                throw OutboundFailure(.tls, detail: error.description)
            }
        }
    }
}

extension [UInt8]? {
    fileprivate func withBytes<T>(_ body: (UnsafeRawBufferPointer) -> T) -> T {
        guard let self else { return body(UnsafeRawBufferPointer(start: nil, count: 0)) }
        return self.withUnsafeBytes(body)
    }
}
