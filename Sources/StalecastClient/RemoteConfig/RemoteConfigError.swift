public import Foundation

/// Key of the user info of a ``RemoteConfigError`` with the code `throttled`: when fetching is possible again, in
/// seconds since 1970 as a `TimeInterval`.
public let RemoteConfigThrottledEndTimeInSecondsKey = "error_throttled_end_time_seconds"
/// The domain of a ``RemoteConfigError``.
public let RemoteConfigErrorDomain = RemoteConfigError.errorDomain
/// The domain of a ``RemoteConfigUpdateError``.
public let RemoteConfigUpdateErrorDomain = RemoteConfigUpdateError.errorDomain
/// The domain of a ``RemoteConfigCustomSignalsError``.
public let RemoteConfigCustomSignalsErrorDomain = RemoteConfigCustomSignalsError.errorDomain

/// Error of a fetch. As `NSError` it has Firebase's domain and codes.
public struct RemoteConfigError: Error, Sendable, Hashable, LocalizedError, CustomNSError {
    /// Firebase's codes.
    public enum Code: Int, Sendable, Hashable {
        case unknown = 8001
        /// The server said "not now", to this fetch or before. See ``RemoteConfigError/throttledEndTime``.
        case throttled = 8002
        /// No answer, an error, or an answer that was not understood.
        case internalError = 8003

        /// Lets `catch RemoteConfigError.throttled` match.
        public static func ~= (code: Code, error: any Error) -> Bool { (error as? RemoteConfigError)?.code == code }
    }

    /// ``Code/unknown``, for patterns.
    public static var unknown: Code { .unknown }
    /// ``Code/throttled``, for patterns: `catch RemoteConfigError.throttled`.
    public static var throttled: Code { .throttled }
    /// ``Code/internalError``, for patterns.
    public static var internalError: Code { .internalError }

    /// Code of the error.
    public let code: Code
    /// A sentence for the developer.
    public let message: String
    /// Time when fetching is possible again; only with ``Code/throttled``.
    public let throttledEndTime: Date?
    /// The HTTP status; nil when there was no answer.
    public let httpStatus: Int?

    init(_ code: Code, _ message: String, throttledEndTime: Date? = nil, httpStatus: Int? = nil) {
        (self.code, self.message) = (code, message)
        (self.throttledEndTime, self.httpStatus) = (throttledEndTime, httpStatus)
    }

    init(throttledUntil end: Date, _ failure: FetchAnswer.Failure?) {
        let cause = failure.map { "; \($0.reason)" } ?? ""
        self.init(
            .throttled, "the server asked for a pause; fetch again after \(end)\(cause)", throttledEndTime: end,
            httpStatus: failure?.status)
    }

    init(_ failure: FetchAnswer.Failure) {
        self.init(.internalError, failure.reason, httpStatus: failure.status)
    }

    /// The domain's name in Firebase's SDK.
    public static let errorDomain = "com.google.remoteconfig.ErrorDomain"
    /// The code's number in Firebase's SDK.
    public var errorCode: Int { code.rawValue }
    /// A sentence for the developer.
    public var errorDescription: String? { message }
    /// The sentence and, when throttled, the end under `RemoteConfigThrottledEndTimeInSecondsKey`.
    public var errorUserInfo: [String: Any] {
        var info: [String: Any] = [NSLocalizedDescriptionKey: message]
        info[RemoteConfigThrottledEndTimeInSecondsKey] = throttledEndTime?.timeIntervalSince1970
        return info
    }
}

/// Error with which an update listener is called. As `NSError` it has Firebase's domain and codes.
public struct RemoteConfigUpdateError: Error, Sendable, Hashable, LocalizedError, CustomNSError {
    /// Firebase's codes.
    public enum Code: Int, Sendable, Hashable {
        /// The connection failed eight times in a row; it goes on trying.
        case streamError = 8001
        /// A version was announced, and the server did not answer it in three attempts.
        case notFetched = 8002
        /// A message could not be understood and was skipped.
        case messageInvalid = 8003
        /// The server switched real-time updates off for this client.
        case unavailable = 8004

        /// Lets `catch RemoteConfigUpdateError.streamError` match.
        public static func ~= (code: Code, error: any Error) -> Bool {
            (error as? RemoteConfigUpdateError)?.code == code
        }
    }

    /// ``Code/streamError``, for patterns.
    public static var streamError: Code { .streamError }
    /// ``Code/notFetched``, for patterns.
    public static var notFetched: Code { .notFetched }
    /// ``Code/messageInvalid``, for patterns.
    public static var messageInvalid: Code { .messageInvalid }
    /// ``Code/unavailable``, for patterns.
    public static var unavailable: Code { .unavailable }

    /// Code of the error.
    public let code: Code

    package init(_ code: Code) { self.code = code }

    /// The domain's name in Firebase's SDK.
    public static let errorDomain = "com.google.remoteconfig.update.ErrorDomain"
    /// The code's number in Firebase's SDK.
    public var errorCode: Int { code.rawValue }
    /// The sentence and, when throttled, the end under `RemoteConfigThrottledEndTimeInSecondsKey`.
    public var errorUserInfo: [String: Any] { [NSLocalizedDescriptionKey: errorDescription ?? ""] }
    /// A sentence for the developer.
    public var errorDescription: String? {
        switch code {
        case .streamError: "the connection for updates keeps failing; it goes on trying"
        case .notFetched: "a new version was announced, but the server still answers an older one"
        case .messageInvalid: "a message about an update could not be understood"
        case .unavailable: "the server has switched real-time updates off"
        }
    }
}

/// Error of defaults that were refused; Firebase's name.
public enum RemoteConfigCodableError: Error, Sendable, Hashable {
    /// The value does not encode as an object, whose members would be the parameters.
    case invalidSetDefaultsInput(String)
}

/// Firebase's error for types it cannot decode. Nothing here throws it: what Firebase refuses, `Date`, is decoded.
public enum RemoteConfigValueCodableError: Error, Sendable, Hashable {
    /// The type is named.
    case unsupportedType(String)
}
