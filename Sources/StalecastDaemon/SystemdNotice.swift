import Foundation

/// Tells systemd about the daemon's state, as `sd_notify(3)` does; nothing happens without `NOTIFY_SOCKET`.
enum SystemdNotice: String {
    case ready = "READY=1"
    case stopping = "STOPPING=1"
    case reloading = "RELOADING=1"

    func send() {
        guard let path = ProcessInfo.processInfo.environment["NOTIFY_SOCKET"], path.utf8.count < 108 else { return }
        let socket = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        guard socket >= 0 else { return }
        defer { close(socket) }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { room in
            room.copyBytes(from: path.utf8)
            // A leading @ is how the environment spells the abstract namespace.
            if path.hasPrefix("@") { room[0] = 0 }
        }
        let length = socklen_t(MemoryLayout<sa_family_t>.size + path.utf8.count)
        var text = rawValue
        if self == .reloading { text += "\nMONOTONIC_USEC=\(DispatchTime.now().uptimeNanoseconds / 1000)" }
        withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                _ = sendto(socket, text, text.utf8.count, Int32(MSG_NOSIGNAL), $0, length)
            }
        }
    }
}
