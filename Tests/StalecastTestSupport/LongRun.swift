import Foundation

/// Whether tests take all the time they need: `deploy/test.sh --long` sets `STALECAST_LONG=1`. Else they try fewer inputs.
package let isLongRun = ProcessInfo.processInfo.environment["STALECAST_LONG"] == "1"

/// Number of seeds with which simulations run.
package enum Simulations {
    package static let schedules: UInt64 = isLongRun ? 100_000 : 2000
}
