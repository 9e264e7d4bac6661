import Foundation
import SampleRun
import StalecastClient

struct Paywall: ParsableConfig {
    static let member = "paywall"
    static let fallback = Paywall(title: "Premium", price: 9.99)
    let title: String
    let price: Double
}

struct Onboarding: ParsableConfig {
    static let member = "onboarding"
    static let fallback = Onboarding(pages: 1, canSkip: false)
    let pages: Int
    let canSkip: Bool
}

@main
struct Main {
    static func main() async throws {
        let run = SampleRun("Several configurations in one JSON parameter, each with observers of its own.")
        Stalecast.configure(options: run.options)
        let remoteConfig = RemoteConfig.remoteConfig()
        let helper = ConfigHelper(remoteConfig, key: "screens")
        let registrations = [
            helper.observe(Paywall.self) { print("paywall: \($0.title) for \($0.price)") },
            helper.observe(Onboarding.self) {
                print("onboarding: \($0.pages) pages, \($0.canSkip ? "can" : "cannot") be skipped")
            },
        ]
        defer { for registration in registrations { registration.remove() } }
        _ = try? await remoteConfig.fetchAndActivate()  // without a server the fallbacks count

        print("listening")
        var count = 0
        await run.forEachUpdate(of: remoteConfig) { _ in
            _ = try await remoteConfig.activate()
            count += 1
            // The observers are told on a queue of their own.
            try await Task.sleep(for: .milliseconds(100))
            run.sawChange(count)
        }
    }
}
