// swift-tools-version: 6.1
import PackageDescription

let strict: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]

/// Tests import the executable's internals, also in release, which is the only configuration CI builds.
let testable: [SwiftSetting] = [.unsafeFlags(["-enable-testing"])]

let nio: [Target.Dependency] = [
    .product(name: "NIOCore", package: "swift-nio"),
    .product(name: "NIOPosix", package: "swift-nio"),
    .product(name: "NIOHTTP1", package: "swift-nio"),
]

let package = Package(
    name: "stalecast",
    platforms: [.macOS(.v15)],
    products: [
        .executable(name: "stalecast", targets: ["stalecast"]),
        .executable(name: "stalecast-benchmarks", targets: ["StalecastBenchmarks"]),
        .library(name: "StalecastClient", targets: ["StalecastClient"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/jpsim/Yams", from: "6.2.2"),
    ],
    targets: [
        .target(name: "StalecastWire", dependencies: ["CZlib"], swiftSettings: strict),
        .target(
            name: "StalecastTemplate",
            dependencies: ["StalecastWire", .product(name: "Crypto", package: "swift-crypto")],
            swiftSettings: strict),
        .target(
            name: "StalecastStore",
            dependencies: [
                "StalecastTemplate", "StalecastWire",
                .product(name: "GRDB", package: "GRDB.swift"),
            ],
            swiftSettings: strict),
        .target(name: "StalecastHub", dependencies: ["StalecastWire"], swiftSettings: strict),
        .target(name: "CEpoll"),
        .target(name: "CZlib", linkerSettings: [.linkedLibrary("z")]),
        .target(name: "CCurl", linkerSettings: [.linkedLibrary("curl")]),
        .target(
            name: "StalecastOutbound",
            dependencies: [
                "StalecastWire", "CCurl", "CEpoll",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict),
        .target(
            name: "StalecastWebhooks",
            dependencies: [
                "StalecastWire", "StalecastOutbound",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict),
        .target(
            name: "StalecastSources",
            dependencies: [
                "StalecastWire", "StalecastTemplate", "StalecastOutbound", "CEpoll",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Yams", package: "Yams"),
            ],
            swiftSettings: strict),
        .target(name: "StalecastClient", dependencies: ["StalecastWire"], swiftSettings: strict),
        .target(
            name: "StalecastEdge",
            dependencies: [
                "StalecastHub", "StalecastTemplate", "StalecastWire", "CEpoll",
                .product(name: "Logging", package: "swift-log"),
            ] + nio,
            swiftSettings: strict),
        .target(
            name: "StalecastControl",
            dependencies: [
                "StalecastStore", "StalecastTemplate", "StalecastWire",
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
            ] + nio,
            swiftSettings: strict),
        .target(
            name: "StalecastDaemon",
            dependencies: [
                "StalecastWire", "StalecastTemplate", "StalecastStore", "StalecastHub", "StalecastEdge",
                "StalecastControl", "StalecastOutbound", "StalecastWebhooks", "StalecastSources", "CEpoll",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Yams", package: "Yams"),
            ],
            swiftSettings: strict),
        .executableTarget(
            name: "stalecast",
            dependencies: [
                "StalecastDaemon", "StalecastStore", "StalecastTemplate", "StalecastWebhooks", "StalecastWire",
                "CEpoll",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict + testable),
        .executableTarget(
            name: "stalecast-contract-service", dependencies: ["StalecastClient", "StalecastWire"],
            path: "Sources/StalecastContractService", swiftSettings: strict),
        .executableTarget(
            name: "StalecastBenchmarks",
            dependencies: [
                "StalecastEdge", "StalecastHub", "StalecastWire", "CEpoll",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict),
        .target(name: "StalecastTestServers", path: "Tests/StalecastTestServers", swiftSettings: strict),
        .testTarget(name: "StalecastWireTests", dependencies: ["StalecastWire"], swiftSettings: strict),
        .testTarget(
            name: "StalecastTemplateTests", dependencies: ["StalecastTemplate", "StalecastWire"],
            swiftSettings: strict),
        .testTarget(
            name: "StalecastStoreTests",
            dependencies: [
                "StalecastStore", "StalecastTemplate", "StalecastWire",
                .product(name: "GRDB", package: "GRDB.swift"),
            ],
            swiftSettings: strict),
        .testTarget(
            name: "StalecastHubTests", dependencies: ["StalecastHub", "StalecastWire"], swiftSettings: strict),
        .testTarget(
            name: "StalecastEdgeTests",
            dependencies: [
                "StalecastEdge", "StalecastHub", "StalecastTemplate", "StalecastWire", "CEpoll",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOEmbedded", package: "swift-nio"),
            ] + nio,
            swiftSettings: strict),
        .testTarget(
            name: "StalecastControlTests",
            dependencies: [
                "StalecastControl", "StalecastStore", "StalecastTemplate", "StalecastWire", "CZlib",
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "Logging", package: "swift-log"),
            ] + nio,
            swiftSettings: strict),
        .testTarget(
            name: "StalecastOutboundTests",
            dependencies: [
                "StalecastOutbound", "StalecastTestServers", "StalecastWire", "CCurl",
                .product(name: "CryptoExtras", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict),
        .testTarget(
            name: "StalecastWebhooksTests",
            dependencies: [
                "StalecastWebhooks", "StalecastOutbound", "StalecastTestServers", "StalecastWire",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict),
        .testTarget(
            name: "StalecastSourcesTests",
            dependencies: [
                "StalecastSources", "StalecastOutbound", "StalecastTemplate", "StalecastTestServers", "StalecastWire",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict),
        .testTarget(
            name: "StalecastClientTests", dependencies: ["StalecastClient", "StalecastWire"], swiftSettings: strict),
        .testTarget(
            name: "StalecastLoadTests",
            dependencies: [
                "stalecast", "StalecastWire",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ], swiftSettings: strict),
        .testTarget(
            name: "StalecastDaemonTests",
            dependencies: [
                "StalecastDaemon", "StalecastOutbound", "StalecastWire", .product(name: "Yams", package: "Yams"),
            ],
            swiftSettings: strict),
    ]
)
