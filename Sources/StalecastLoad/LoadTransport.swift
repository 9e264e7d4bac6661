/// How the load's subscribers listen.
package enum LoadTransport: String, CaseIterable, Sendable {
    /// A stream of server-sent events.
    case sse
    /// Long-polls, the next sent as soon as one is answered.
    case poll
}
