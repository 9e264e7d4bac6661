import Foundation

/// Whether tests take all the time they need: `deploy/test.sh --long` sets `STALECAST_LONG=1`. Else they try fewer inputs.
package let isLongRun = ProcessInfo.processInfo.environment["STALECAST_LONG"] == "1"

/// Number of inputs that a test tries. In a debug build, as `deploy/test.sh --fast` makes it, a simulation takes up to ten
/// times as long as in the release build that CI tests: there a sixth of them.
///
/// - Parameters:
///   - usual: of a release build.
///   - long: of `deploy/test.sh --long`; nil: the same.
package func inputs(_ usual: Int, long: Int? = nil) -> Int {
    if isLongRun { return long ?? usual }
    #if DEBUG
        return max(1, usual / 6)
    #else
        return usual
    #endif
}

/// Number of seeds with which simulations run.
package enum Simulations {
    package static let schedules = UInt64(inputs(2000, long: 100_000))
    /// Most seeds among which a planted bug is sought.
    package static let searched: UInt64 = isLongRun ? 100_000 : 2000
}
