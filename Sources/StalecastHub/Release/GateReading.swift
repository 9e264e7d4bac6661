package import StalecastWire

package struct GateReading: Hashable, Sendable {
    /// Raw values are on the wire.
    package enum Verdict: String, Sendable, CaseIterable {
        case ok = "OK"
        /// Too few clients, or no answer yet, to say something.
        case tooLittle = "TOO_LITTLE"
        case tripped = "TRIPPED"
    }

    package let name: String
    package var verdict: Verdict
    /// Value in percent, but for the gate `prometheus`; nil while there is none.
    package var value: Double?
    /// Limit in the unit of ``value``; nil for a gate that has none.
    package var limit: Double?
    /// Percent that told addresses lost, and the others; of the gate `loss`.
    package var told: Double?
    package var untold: Double?
    /// Told clients, fetches or addresses that ``value`` is about; nil for a gate that asks outside.
    package var count: Int?
    /// Reason for the trip, or for no verdict.
    package var detail: String?

    package init(
        _ name: String, _ verdict: Verdict, value: Double? = nil, limit: Double? = nil, count: Int? = nil
    ) {
        (self.name, self.verdict, self.value, self.limit, self.count) = (name, verdict, value, limit, count)
    }

    package var json: JSONValue {
        var object: JSONObject = ["name": .string(name), "verdict": .string(verdict.rawValue)]
        for (name, number) in [("value", value), ("limit", limit), ("told", told), ("untold", untold)] {
            // Four digits are more than any gate knows.
            object[name] = number.map { .double(($0 * 10_000).rounded() / 10_000) }
        }
        object["count"] = count.map { .int($0) }
        object["detail"] = detail.map(JSONValue.string)
        return .object(object)
    }
}
