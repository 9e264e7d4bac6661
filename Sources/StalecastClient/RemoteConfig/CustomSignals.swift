public import Foundation

/// The value of a custom signal: what conditions `app.customSignal['…']` look at. Literals will do:
/// `["plan": "pro", "level": 12, "ratio": 0.5]`.
public struct CustomSignalValue: Sendable, Hashable, ExpressibleByStringInterpolation, ExpressibleByIntegerLiteral,
    ExpressibleByFloatLiteral
{
    /// Text as it is sent: numbers as their digits.
    let text: String

    /// A text, at most 500 characters.
    public static func string(_ value: String) -> CustomSignalValue { CustomSignalValue(text: value) }
    /// A whole number.
    public static func integer(_ value: Int) -> CustomSignalValue { CustomSignalValue(text: String(value)) }
    /// A number.
    public static func double(_ value: Double) -> CustomSignalValue { CustomSignalValue(text: "\(value)") }

    private init(text: String) { self.text = text }

    /// A value written in the source.
    public init(stringLiteral value: String) { text = value }
    /// A value written in the source.
    public init(integerLiteral value: Int) { text = String(value) }
    /// A value written in the source.
    public init(floatLiteral value: Double) { text = "\(value)" }
}

/// Refusal of custom signals; none of a refused call is set. As `NSError` it has Firebase's domain and codes.
public struct RemoteConfigCustomSignalsError: Error, Sendable, Hashable, LocalizedError, CustomNSError {
    /// Firebase's codes.
    public enum Code: Int, Sendable, Hashable {
        case unknown = 8101
        case invalidValueType = 8102
        case limitExceeded = 8103

        /// Lets `catch RemoteConfigCustomSignalsError.limitExceeded` match.
        public static func ~= (code: Code, error: any Error) -> Bool {
            (error as? RemoteConfigCustomSignalsError)?.code == code
        }
    }

    /// ``Code/unknown``, for patterns.
    public static var unknown: Code { .unknown }
    /// ``Code/invalidValueType``, for patterns.
    public static var invalidValueType: Code { .invalidValueType }
    /// ``Code/limitExceeded``, for patterns.
    public static var limitExceeded: Code { .limitExceeded }

    /// Code of the error.
    public let code: Code
    /// A sentence that names the signal and the limit.
    public let message: String

    /// The domain's name in Firebase's SDK.
    public static let errorDomain = "com.google.remoteconfig.customsignals.ErrorDomain"
    /// The code's number in Firebase's SDK.
    public var errorCode: Int { code.rawValue }
    /// A sentence for the developer.
    public var errorDescription: String? { message }
    /// The sentence, for Foundation.
    public var errorUserInfo: [String: Any] { [NSLocalizedDescriptionKey: message] }
}

/// Firebase's limits for custom signals.
public enum CustomSignalLimits {
    /// Signals set at once.
    public static let count = 100
    /// Characters of a name.
    public static let keyLength = 250
    /// Characters of a value.
    public static let valueLength = 500
}

extension RemoteConfig {
    /// Sets signals that are sent with every fetch from now on; they survive the process. nil removes one, others stay.
    ///
    /// - Throws: ``RemoteConfigCustomSignalsError`` when a limit of ``CustomSignalLimits`` would be exceeded.
    public func setCustomSignals(_ signals: [String: CustomSignalValue?]) async throws {
        try merge(signals)
        await keeper.flush()
    }

    /// ``setCustomSignals(_:)`` with a completion handler.
    public func setCustomSignals(
        _ signals: [String: CustomSignalValue?], completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) {
        app.callbacks.run(Result { try merge(signals) }, completionHandler)
    }

    private func merge(_ signals: [String: CustomSignalValue?]) throws {
        for (name, value) in signals {
            try check(name.count <= CustomSignalLimits.keyLength, "the name of signal \(name.prefix(40))… is too long")
            let length = value?.text.count ?? 0
            try check(length <= CustomSignalLimits.valueLength, "the value of signal \(name) is too long")
        }
        let fits = keeper.change { state in
            var merged = state.stored.customSignals
            for (name, value) in signals { merged[name] = value?.text }
            guard merged.count <= CustomSignalLimits.count else { return false }
            state.stored.customSignals = merged
            return true
        }
        try check(fits, "too many signals")
    }

    private func check(_ holds: Bool, _ problem: String) throws {
        guard !holds else { return }
        let limits =
            "at most \(CustomSignalLimits.count) signals, names of \(CustomSignalLimits.keyLength) and values of "
        throw RemoteConfigCustomSignalsError(
            code: .limitExceeded,
            message: "\(problem): \(limits)\(CustomSignalLimits.valueLength) characters are allowed")
    }
}
