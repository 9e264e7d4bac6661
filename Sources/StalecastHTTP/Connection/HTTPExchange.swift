/// Request of a connection and its answer.
struct HTTPExchange {
    var head: RequestHead?
    var body: [UInt8] = []
    /// The request has no body and was not admitted: the answer waits for its end, and the connection goes on.
    var denied: GoogleError?
    /// The answer being written said how long it is.
    var isSized = false
    /// Answer that another thread writes; nil: the loop does.
    var prompt: PromptAnswer?
}
