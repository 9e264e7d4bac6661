import SampleRun
import StalecastClient

/// Settings that belong together, read as one value.
struct Banner: Codable, Sendable {
    var text = ""
    var color = "#336699"
}

/// Texts and limits the app has before it ever reached a server. `Encodable`, so that they are typed.
struct Defaults: Encodable {
    var welcome_text = "Welcome"
    var max_items = 10
    var dark_mode = false
    var banner = Banner()
}

struct HomeScreen {
    @RemoteConfigProperty(key: "welcome_text", fallback: "Welcome") var title: String
    @RemoteConfigProperty(key: "max_items", fallback: 10) var rows: Int
    @RemoteConfigProperty(key: "banner", fallback: Banner()) var banner: Banner

    func draw() {
        let shown = banner.text.isEmpty ? "no banner" : "banner \"\(banner.text)\" in \(banner.color)"
        print("home screen: \"\(title)\", \(rows) rows, \(shown)")
    }
}

/// Defaults, fetch and activate, typed and Codable values, a property wrapper, and new values without a restart.
@main
struct Quickstart {
    static func main() async throws {
        let run = SampleRun("Defaults, fetch, activate, typed values, and live updates.")
        Stalecast.configure(options: run.options)
        let remoteConfig = RemoteConfig.remoteConfig()
        try remoteConfig.setDefaults(from: Defaults())
        let home = HomeScreen()
        home.draw()

        do {
            try await remoteConfig.fetchAndActivate()
            print("fetched; version \(version(remoteConfig)) is in force")
        } catch {
            print("running on what is known: \(error.localizedDescription)")
        }
        home.draw()
        print("dark mode: \(remoteConfig["dark_mode"].boolValue), from \(remoteConfig["dark_mode"].source)")

        var count = 0
        print("listening; publish something: stalecast publish samples/templates/demo-winter.json")
        await run.forEachUpdate(of: remoteConfig) { update in
            _ = try await remoteConfig.activate()
            print("version \(version(remoteConfig)) changed \(update.updatedKeys.sorted().joined(separator: ", "))")
            home.draw()
            count += 1
            run.sawChange(count)
        }
    }

    private static func version(_ remoteConfig: RemoteConfig) -> String {
        remoteConfig.activeVersion.map { "\($0)" } ?? "none"
    }
}
