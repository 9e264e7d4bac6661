import CLinux
import Glibc
import StalecastHTTP
import StalecastHub
import StalecastWire

/// Connections of trusted proxies: whose they are is known with the PROXY header, or with each request.
extension Shard {
    /// The peer of a new connection when it is trusted to speak for others.
    func trustedProxy(_ fd: Int32) -> IPAddress? {
        guard !settings.proxies.networks.isEmpty, let peer = IPAddress(peerOf: fd), settings.proxies.trust(peer) else {
            return nil
        }
        return peer.canonical
    }

    func isProxied(_ index: Int32) -> Bool { !proxies.isEmpty && proxies[index] != nil }

    /// Takes the PROXY header, and nothing behind it.
    ///
    /// - Returns: false when it is not there yet, or the connection is gone.
    func takeProxyHeader(_ index: Int32) -> Bool {
        let slot = slots[index]
        let count = stalecast_peek(slot.pointee.fd, input.buffer.baseAddress, ProxyHeader.maxLength)
        guard count > 0 else {
            if count == 0 || blocked() < 0 { release(index, .peerClosed) }
            return false
        }
        switch ProxyHeader.read(UnsafeRawBufferPointer(UnsafeBufferPointer(rebasing: input.buffer[0..<count]))) {
        case .incomplete: return false
        case .invalid:
            audience.tally.refused[.proxyHeader, default: 0] += 1
            release(index, nil)
            return false
        case .header(let length, let source):
            stalecast_discard(slot.pointee.fd, length)
            slot.pointee.input.awaitsProxyHeader = false
            guard let source else { return true }
            // A proxy may be in front of the proxy.
            proxies[index] = settings.proxies.trust(source) ? source : nil
            if !isProxied(index) { attribute(index, to: source) }
            return true
        }
    }

    /// Takes a trusted proxy's word for whose request this is.
    func believe(_ index: Int32, _ forwarded: [String]) {
        guard isProxied(index), let proxy = proxies[index] else { return }
        attribute(index, to: settings.proxies.client(behind: proxy, saying: forwarded))
    }

    private func attribute(_ index: Int32, to client: IPAddress) {
        let slot = slots[index]
        if !ledger.move(from: slot.pointee.client.address, to: client.key, caps: settings.caps) {
            slot.pointee.input.isRefused = true
            audience.tally.refused[.addressCapacity, default: 0] += 1
        }
        slot.pointee.client.address = client.key
    }
}
