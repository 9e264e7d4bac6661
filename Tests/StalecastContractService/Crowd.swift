import StalecastWire

/// Many clients in this process, and what became of them in figures.
protocol Crowd: AnyObject, Sendable {
    func start()
    func stop()
    /// Something happened to the device.
    ///
    /// - Returns: false for a name that means nothing here.
    func happened(_ name: String) -> Bool
    var summary: JSONValue { get }
}

/// Error in the harness's parameters.
struct UnusableCrowd: Error, CustomStringConvertible { let description: String }

extension JSONValue {
    /// Counts how often each name occurs.
    static func tally(_ names: [String]) -> JSONValue {
        var counts: [String: Int] = [:]
        for name in names { counts[name, default: 0] += 1 }
        var object = JSONObject()
        for (name, count) in counts { object[name] = .int(count) }
        return .object(object)
    }
}
