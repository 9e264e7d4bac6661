// swift-tools-version: 6.1
import PackageDescription

/// Programs that people build with the Swift client. `swift run --package-path samples Quickstart`
let samples = ["Quickstart", "RealtimePropagation", "ConfigHelper", "ForceUpdate", "UpdateBehaviours"]

let package = Package(
    name: "stalecast-samples",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "stalecast", path: "..", traits: [])],
    targets: [
        .target(name: "SampleRun", dependencies: [.product(name: "StalecastClient", package: "stalecast")])
    ]
        + samples.map {
            .executableTarget(
                name: $0, dependencies: ["SampleRun", .product(name: "StalecastClient", package: "stalecast")])
        }
)
