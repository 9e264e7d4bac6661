import Foundation
import StalecastWire

/// `<data>/endpoints.json`: where this daemon really listens, for the CLI and for scripts. Written once both
/// listeners accept, removed at a clean end.
struct Endpoints {
    let directory: String
    let edge: String
    let control: String

    private var path: String { "\(directory)/endpoints.json" }

    func write() throws(StartError) {
        let document: JSONValue = [
            "edge": .string(edge), "control": .string(control),
            "pid": .int(ProcessInfo.processInfo.processIdentifier),
        ]
        try PrivateFile.write(document.text() + "\n", to: path)
        RuntimeDirectory.current?.share(path)
    }

    func remove() {
        unlink(path)
        RuntimeDirectory.current?.withdraw(path)
    }

    static func url(_ host: String, _ port: Int) -> String {
        host.contains(":") ? "http://[\(host)]:\(port)" : "http://\(host):\(port)"
    }
}
