import StalecastEdge
import StalecastWire

extension ConfigurationReading {
    /// The checks that take more than one value. A check whose values were refused is left out: it would blame a default.
    mutating func checkAcrossOptions() {
        checkPorts()
        checkBinds()
        checkOrigins()
        checkPollWaits()
        checkTopicScopes()
        checkReceivers()
    }

    private mutating func checkPorts() {
        let edge = configuration.edge.listen
        let control = configuration.control.listen
        guard sound("edge.listen", "control.listen"), edge.port == control.port, edge.port != 0 else { return }
        let sentence = "edge.listen (\(edge)) and control.listen (\(control)) have the same port; give each its own"
        note(sentence, at: latest("control.listen", "edge.listen"))
    }

    private mutating func checkBinds() {
        let edge = configuration.edge
        if sound("edge.listen", "edge.allowPublicBind"), !edge.listen.isLoopback, !edge.allowPublicBind {
            let sentence =
                "whoever reaches it could subscribe and fetch; set edge.allowPublicBind (serve --allow-public-bind) to "
                + "permit it"
            note("edge.listen: \(edge.listen) is not a loopback address: \(sentence)", at: "edge.listen")
        }
        let control = configuration.control
        let isSound = sound("control.listen", "control.allowPlaintextBind")
        if isSound, !control.listen.isLoopback, !control.allowPlaintextBind {
            let sentence =
                "the token would cross the network unencrypted; set control.allowPlaintextBind "
                + "(serve --allow-plaintext-bind) to permit it"
            note("control.listen: \(control.listen) is not a loopback address: \(sentence)", at: "control.listen")
        }
    }

    private mutating func checkOrigins() {
        let origins = configuration.edge.settings.allowedOrigins
        let path = "edge.allowedOrigins"
        guard sound(path), origins.contains("*"), origins.count > 1 else { return }
        note("\(path): * is every origin and stands alone; remove it or the others", at: path)
    }

    private mutating func checkPollWaits() {
        let (wait, longest) = (configuration.edge.settings.pollDefaultWait, configuration.edge.settings.pollMaxWait)
        guard sound("edge.poll.defaultWait", "edge.poll.maxWait"), wait > longest else { return }
        let sentence = "(\(wait.spelled)) is longer than edge.poll.maxWait (\(longest.spelled))"
        note("edge.poll.defaultWait \(sentence)", at: latest("edge.poll.defaultWait", "edge.poll.maxWait"))
    }

    private mutating func checkTopicScopes() {
        guard sound("projects") else { return }
        let known = configuration.scopes
        let names = known.map(\.description).joined(separator: ", ")
        for (path, scope) in mentionedScopes where !known.contains(scope) {
            note("\(path): there is no scope \(scope); the scopes are \(names)", at: path)
        }
    }

    func sound(_ paths: String...) -> Bool { refused.isDisjoint(with: paths) }

    /// The first of `paths` that was set at all; the first if none was.
    private func latest(_ paths: String...) -> String { paths.first { origins[$0] != nil } ?? paths[0] }
}
