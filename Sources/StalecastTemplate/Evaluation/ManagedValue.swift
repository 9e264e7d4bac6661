import StalecastWire

/// A value whose delivery depends on the instance beyond conditions.
enum ManagedValue: Sendable {
    case rollout(Rollout)
    case experiment(Experiment)

    /// An instance is in when its bucket, drawn with the rollout's id as seed, is below `percent`: it gets the value.
    /// One that is not goes on as if the rollout were not there, to the next true condition or the default; it is the
    /// control group.
    struct Rollout: Sendable {
        let id: String
        /// A place of ``CompiledTemplate/texts``.
        let value: Int
        /// Exposure in millionths of a percent.
        let percent: UInt32
        let seed: Int
    }

    /// An instance takes part when its bucket, drawn with the experiment's id as seed, is below `exposure`; which
    /// variant it gets is drawn with `<id>.variant`, all variants being equally likely, so that raising the exposure
    /// moves no client from one variant to another. Those that take no part, and those whose variant changes nothing, go
    /// on as if the experiment were not there.
    struct Experiment: Sendable {
        let id: String
        let startTime: String
        let variants: [Variant]
        /// Exposure in millionths of a percent.
        let exposure: UInt32
        let exposureSeed: Int
        let variantSeed: Int
    }

    struct Variant: Sendable {
        let id: String
        /// A place of ``CompiledTemplate/texts``; nil changes nothing.
        let value: Int?
    }

    /// Choice that was drawn for an instance; 0 while none was.
    typealias Choice = UInt16

    /// The place of the text `choice` delivers; nil goes on to what comes next.
    func text(_ choice: Choice) -> Int? {
        switch self {
        case .rollout(let rollout): choice == Rollout.enabled ? rollout.value : nil
        case .experiment(let experiment): experiment.variant(choice)?.value
        }
    }

    func choice(in evaluation: inout Evaluation) -> Choice {
        switch self {
        case .rollout(let rollout): rollout.choice(in: &evaluation)
        case .experiment(let experiment): experiment.choice(in: &evaluation)
        }
    }
}

extension ManagedValue.Rollout {
    static let control: ManagedValue.Choice = 1
    static let enabled: ManagedValue.Choice = 2

    /// - Parameters:
    ///   - seed: gives the place of a seed.
    ///   - text: gives the place of a text.
    init(_ content: JSONValue, seed: (String) -> Int, text: (String) -> Int) {
        id = content["rolloutId"]?.string ?? ""
        value = text(content["value"]?.string ?? "")
        percent = ConditionExpression.PercentTest.micros(ofNumber: content["percent"]) ?? 0
        self.seed = seed(id)
    }

    fileprivate func choice(in evaluation: inout Evaluation) -> ManagedValue.Choice {
        guard let bucket = evaluation.bucket(seed) else { return 0 }
        return bucket < percent ? Self.enabled : Self.control
    }

    /// Id by which clients call the group.
    static func variantID(_ choice: ManagedValue.Choice) -> String { choice == enabled ? "enabled" : "control" }
}

extension ManagedValue.Experiment {
    private static let firstVariant: ManagedValue.Choice = 1

    /// Reads a managed value. Without `exposurePercent` all instances take part.
    ///
    /// - Parameters:
    ///   - seed: gives the place of a seed.
    ///   - text: gives the place of a text.
    init(_ content: JSONValue, seed: (String) -> Int, text: (String) -> Int) {
        id = content["experimentId"]?.string ?? ""
        startTime = content["experimentStartTime"]?.string ?? Self.defaultStartTime
        let variants = (content["variantValue"]?.array ?? []).prefix(1000)
        self.variants = variants.enumerated().map { index, variant in
            ManagedValue.Variant(
                id: variant["variantId"]?.string ?? String(index),
                value: variant["noChange"]?.bool == true ? nil : variant["value"]?.string.map(text))
        }
        exposure =
            ConditionExpression.PercentTest.micros(ofNumber: content["exposurePercent"]) ?? UInt32(RandomBucket.count)
        exposureSeed = seed(id)
        variantSeed = seed("\(id).variant")
    }

    /// SDKs compare it with that of experiments they know; a constant keeps a publish from looking like a new one.
    private static let defaultStartTime = "2020-01-01T00:00:00Z"

    func variant(_ choice: ManagedValue.Choice) -> ManagedValue.Variant? {
        choice >= Self.firstVariant ? variants[Int(choice - Self.firstVariant)] : nil
    }

    fileprivate func choice(in evaluation: inout Evaluation) -> ManagedValue.Choice {
        guard !variants.isEmpty, let bucket = evaluation.bucket(exposureSeed), bucket < exposure,
            let draw = evaluation.bucket(variantSeed)
        else { return 0 }
        // Scales the draw to the number of variants: each has an equal part of the buckets.
        return ManagedValue.Choice(UInt64(draw) * UInt64(variants.count) / RandomBucket.count) + Self.firstVariant
    }
}

extension ConditionExpression.PercentTest {
    /// A JSON number of percent in millionths of a percent, finer decimals dropped, at most 100 %; nil without one.
    fileprivate static func micros(ofNumber json: JSONValue?) -> UInt32? {
        guard case .number(let text)? = json else { return nil }
        if let exact = micros(text) { return exact }
        guard let percent = Double(text), percent.isFinite else { return nil }
        return UInt32(min(max(percent, 0), 100) * 1_000_000)
    }
}
