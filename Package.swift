// swift-tools-version: 6.1
import PackageDescription

let strict: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]

// What they test is optimised; they are not, for that would be two thirds of what compiling them costs. A module is made
// in one go, as the optimiser does: else its types are checked twice.
let tests: [SwiftSetting] =
    strict + [.unsafeFlags(["-Onone", "-no-emit-module-separately-wmo"], .when(configuration: .release))]

let nio: [Target.Dependency] = [
    .product(name: "NIOCore", package: "swift-nio"),
    .product(name: "NIOPosix", package: "swift-nio"),
    .product(name: "NIOHTTP1", package: "swift-nio"),
]

let package = Package(
    name: "stalecast",
    // All but Linux is the SDK's; the daemon's engine is epoll.
    platforms: [.macOS(.v15), .iOS(.v15), .tvOS(.v15), .watchOS(.v8), .visionOS(.v1)],
    products: [
        .executable(name: "stalecast", targets: ["stalecast"]),
        .executable(name: "stalecast-benchmarks", targets: ["StalecastBenchmarks"]),
        .library(name: "StalecastClient", targets: ["StalecastClient"]),
        .library(name: "StalecastFirebaseRedirect", targets: ["StalecastFirebaseRedirect"]),
    ],
    traits: [
        .trait(name: "Daemon", description: "All but the SDK. With `traits: []` an app resolves no package."),
        .default(enabledTraits: ["Daemon"]),
    ],
    // Up to the next minor, so that what was measured is what is built; Package.resolved is not kept (see "Packages are
    // pinned here" in deploy/docs/decisions.md). Two are exact: we import a module of theirs that is no product. An app
    // that takes the SDK without traits resolves none of these, so it inherits no pin.
    dependencies: [
        .package(url: "https://github.com/apple/swift-nio", .upToNextMinor(from: "2.101.2")),
        // TLS in the house: a proxy in front costs more per delivery and per stream than the daemon does. StalecastHTTP
        // also imports the BoringSSL inside it (CNIOBoringSSL): look there before taking another version.
        .package(url: "https://github.com/apple/swift-nio-ssl", exact: "2.37.6"),
        // HTTP/2 for browsers: six HTTP/1.1 connections of a host are all that they open.
        .package(url: "https://github.com/apple/swift-nio-http2", .upToNextMinor(from: "1.46.0")),
        .package(url: "https://github.com/groue/GRDB.swift", .upToNextMinor(from: "7.10.0")),
        .package(url: "https://github.com/apple/swift-argument-parser", .upToNextMinor(from: "1.8.2")),
        .package(url: "https://github.com/apple/swift-log", .upToNextMinor(from: "1.16.2")),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", .upToNextMinor(from: "2.13.0")),
        .package(url: "https://github.com/apple/swift-crypto", .upToNextMinor(from: "4.5.2")),
        .package(url: "https://github.com/apple/swift-collections", .upToNextMinor(from: "1.6.0")),
        // StalecastSources also imports the libyaml inside it (CYaml), to bound a document before it is composed.
        .package(url: "https://github.com/jpsim/Yams", exact: "6.2.2"),
    ],
    targets: [
        .target(name: "StalecastWire", swiftSettings: strict),
        .target(
            name: "StalecastAccess",
            dependencies: [
                "StalecastWire", "CLinux", .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
                .product(name: "DequeModule", package: "swift-collections"),
            ],
            swiftSettings: strict),
        .target(
            name: "StalecastTemplate",
            dependencies: ["StalecastWire", .product(name: "Crypto", package: "swift-crypto")],
            swiftSettings: strict),
        // Records that several nodes share, and the work that one node of several has.
        .target(
            name: "StalecastRecords",
            dependencies: ["StalecastWire", .product(name: "Crypto", package: "swift-crypto")],
            swiftSettings: strict),
        .target(
            name: "StalecastStore",
            dependencies: [
                "StalecastRecords", "StalecastTemplate", "StalecastWire", "CZlib",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "GRDB", package: "GRDB.swift"),
            ],
            swiftSettings: strict),
        .target(
            name: "StalecastCluster",
            dependencies: [
                "StalecastRecords", "StalecastStore", "StalecastWire",
                .product(name: "Crypto", package: "swift-crypto"),
            ],
            swiftSettings: strict),
        .target(
            name: "StalecastEtcd",
            dependencies: [
                "StalecastCluster", "StalecastRecords", "StalecastWire",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "NIOHPACK", package: "swift-nio-http2"),
                .product(name: "NIOHTTP2", package: "swift-nio-http2"),
            ],
            swiftSettings: strict),
        .target(
            name: "StalecastHub",
            dependencies: [
                "StalecastRecords", "StalecastWire", .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "DequeModule", package: "swift-collections"),
            ],
            swiftSettings: strict),
        .target(name: "CLinux"),
        .target(name: "CZlib", linkerSettings: [.linkedLibrary("z")]),
        // The console's pages, as bytes; CConsole.c embeds them.
        .target(name: "CConsole", exclude: ["web"]),
        // The client for web pages, which Edge serves; CWebClient.c embeds it, and `npm pack` in `web` makes a package.
        .target(name: "CWebClient", exclude: ["web"]),
        .target(name: "CTLS", dependencies: [.product(name: "NIOSSL", package: "swift-nio-ssl")]),
        .target(
            name: "StalecastHTTP",
            dependencies: [
                "StalecastAccess", "StalecastWire", "CLinux", "CTLS", "CZlib",
                .product(name: "NIOTLS", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "NIOHPACK", package: "swift-nio-http2"),
                .product(name: "NIOHTTP2", package: "swift-nio-http2"),
            ] + nio,
            swiftSettings: strict),
        .target(name: "CCurl", linkerSettings: [.linkedLibrary("curl")]),
        .target(
            name: "StalecastOutbound",
            dependencies: [
                "StalecastWire", "CCurl", "CLinux",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
                .product(name: "DequeModule", package: "swift-collections"),
                .product(name: "HeapModule", package: "swift-collections"),
            ],
            swiftSettings: strict),
        .target(
            name: "StalecastWebhooks",
            dependencies: [
                "StalecastHub", "StalecastOutbound", "StalecastRecords", "StalecastWire",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "DequeModule", package: "swift-collections"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "HeapModule", package: "swift-collections"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict),
        .target(
            name: "StalecastSources",
            dependencies: [
                "StalecastWire", "StalecastTemplate", "StalecastStore", "StalecastOutbound", "CLinux",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Yams", package: "Yams"),
            ],
            swiftSettings: strict),
        .target(name: "CTransfers"),
        .target(
            name: "StalecastClient",
            dependencies: ["StalecastWire", .target(name: "CTransfers", condition: .when(platforms: [.linux]))],
            swiftSettings: strict),
        // For apps with Firebase's own SDK.
        .target(name: "StalecastFirebaseRedirect", swiftSettings: strict),
        .target(
            name: "StalecastLoad", dependencies: ["StalecastHTTP", "StalecastWire", "CLinux"], exclude: ["Benchmarks"],
            swiftSettings: strict),
        .target(
            name: "StalecastEdge",
            dependencies: [
                "StalecastAccess", "StalecastHub", "StalecastHTTP", "StalecastTemplate", "StalecastWire", "CLinux",
                "CWebClient",
                .product(name: "Logging", package: "swift-log"),
            ] + nio,
            swiftSettings: strict),
        .target(
            name: "StalecastControl",
            dependencies: [
                "StalecastAccess", "StalecastHTTP", "StalecastHub", "StalecastOutbound", "StalecastRecords",
                "StalecastSources", "StalecastStore", "StalecastTemplate", "StalecastWebhooks", "StalecastWire",
                "CConsole", "CLinux",
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
            ] + nio,
            swiftSettings: strict),
        .target(
            name: "StalecastDaemon",
            dependencies: [
                "StalecastAccess", "StalecastWire", "StalecastTemplate", "StalecastStore", "StalecastHub",
                "StalecastEdge", "StalecastControl", "StalecastHTTP", "StalecastOutbound", "StalecastWebhooks",
                "StalecastSources", "StalecastRecords", "StalecastCluster", "StalecastEtcd",
                "CLinux",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Yams", package: "Yams"),
            ],
            swiftSettings: strict),
        .executableTarget(
            name: "stalecast",
            dependencies: [
                "StalecastAccess", "StalecastClient", "StalecastControl", "StalecastDaemon", "StalecastHTTP",
                "StalecastHub", "StalecastLoad", "StalecastOutbound", "StalecastSources", "StalecastStore",
                "StalecastTemplate", "StalecastWebhooks", "StalecastWire", "CLinux",
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: strict),
        .executableTarget(
            name: "stalecast-contract-service", dependencies: ["StalecastClient", "StalecastWire"],
            path: "Tests/StalecastContractService", swiftSettings: strict),
        .executableTarget(
            name: "StalecastBenchmarks",
            dependencies: [
                "StalecastEdge", "StalecastHub", "StalecastWire", "CLinux",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Logging", package: "swift-log"),
            ],
            path: "Sources/StalecastLoad/Benchmarks", swiftSettings: strict),
        .target(name: "StalecastTestSupport", path: "Tests/StalecastTestSupport", swiftSettings: tests),
        .target(name: "StalecastTestServers", path: "Tests/StalecastTestServers", swiftSettings: tests),
        .testTarget(
            name: "StalecastWireTests",
            dependencies: ["StalecastTestSupport", "StalecastTestServers", "StalecastWire"], swiftSettings: tests),
        .testTarget(
            name: "StalecastAccessTests",
            dependencies: [
                "StalecastAccess", "StalecastTestSupport", "StalecastWire",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
            ], swiftSettings: tests),
        .testTarget(
            name: "StalecastTemplateTests",
            dependencies: ["StalecastTestSupport", "StalecastTemplate", "StalecastWire"],
            swiftSettings: tests),
        .testTarget(
            name: "StalecastStoreTests",
            dependencies: [
                "StalecastTestRecords", "StalecastTestSupport",
                "StalecastRecords", "StalecastStore", "StalecastTemplate", "StalecastWire",
                .product(name: "GRDB", package: "GRDB.swift"),
            ],
            swiftSettings: tests),
        .target(
            name: "StalecastTestRecords", dependencies: ["StalecastRecords"], path: "Tests/StalecastTestRecords",
            swiftSettings: tests),
        .testTarget(
            name: "StalecastRecordsTests",
            dependencies: ["StalecastTestRecords", "StalecastTestSupport", "StalecastRecords", "StalecastWire"],
            swiftSettings: tests),
        .testTarget(
            name: "StalecastClusterTests",
            dependencies: [
                "StalecastTestSupport", "StalecastCluster", "StalecastRecords", "StalecastStore", "StalecastTemplate",
                "StalecastWire",
            ], swiftSettings: tests),
        .testTarget(
            name: "StalecastEtcdTests",
            dependencies: [
                "StalecastTestSupport", "StalecastTestServers", "StalecastCluster", "StalecastEtcd", "StalecastRecords",
                "StalecastWire",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOHPACK", package: "swift-nio-http2"),
                .product(name: "NIOHTTP2", package: "swift-nio-http2"),
            ], swiftSettings: tests),
        .testTarget(
            name: "StalecastHubTests",
            dependencies: [
                "StalecastTestRecords", "StalecastTestSupport", "StalecastHub", "StalecastRecords", "StalecastWire",
            ],
            swiftSettings: tests),
        .testTarget(
            name: "StalecastHTTPTests",
            dependencies: [
                "StalecastTestSupport", "StalecastAccess", "StalecastHTTP", "StalecastWire",
                .product(name: "NIOHTTP1", package: "swift-nio"),
            ],
            swiftSettings: tests),
        .testTarget(
            name: "StalecastEdgeTests",
            dependencies: [
                "StalecastTestSupport",
                "StalecastDaemon", "StalecastEdge", "StalecastHTTP", "StalecastHub", "StalecastTemplate",
                "StalecastTestServers", "StalecastWire", "CLinux",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOEmbedded", package: "swift-nio"),
            ] + nio,
            swiftSettings: tests),
        .testTarget(
            name: "StalecastControlTests",
            dependencies: [
                "StalecastTestSupport",
                "StalecastAccess", "StalecastControl", "StalecastHTTP", "StalecastHub", "StalecastOutbound",
                "StalecastRecords", "StalecastSources", "StalecastTestRecords",
                "StalecastStore", "StalecastTemplate", "StalecastWebhooks", "StalecastWire", "CZlib",
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "Logging", package: "swift-log"),
            ] + nio,
            swiftSettings: tests),
        .testTarget(
            name: "StalecastOutboundTests",
            dependencies: [
                "StalecastTestSupport",
                "StalecastOutbound", "StalecastTestServers", "StalecastWire", "CCurl",
                .product(name: "CryptoExtras", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: tests),
        .testTarget(
            name: "StalecastWebhooksTests",
            dependencies: [
                "StalecastTestRecords", "StalecastTestSupport",
                "StalecastHub", "StalecastOutbound", "StalecastRecords", "StalecastTestServers", "StalecastWebhooks",
                "StalecastWire",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: tests),
        .testTarget(
            name: "StalecastSourcesTests",
            dependencies: [
                "StalecastTestSupport",
                "StalecastSources", "StalecastOutbound", "StalecastStore", "StalecastTemplate", "StalecastTestServers",
                "StalecastWire",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: tests),
        .testTarget(
            name: "StalecastClientTests",
            dependencies: ["StalecastTestSupport", "StalecastClient", "StalecastTestServers", "StalecastWire"],
            swiftSettings: tests),
        .testTarget(
            name: "StalecastFirebaseRedirectTests",
            dependencies: ["StalecastFirebaseRedirect", "StalecastTestServers"], swiftSettings: tests),
        .testTarget(
            name: "StalecastLoadTests",
            dependencies: ["StalecastTestSupport", "StalecastLoad", "StalecastTemplate", "StalecastWire"],
            swiftSettings: tests),
        .testTarget(
            name: "StalecastCommandTests",
            dependencies: [
                "StalecastTestSupport",
                "stalecast", "StalecastDaemon", "StalecastTemplate", "StalecastWire",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: tests),
        .testTarget(
            name: "StalecastDaemonTests",
            dependencies: [
                "StalecastTestSupport",
                "StalecastAccess", "StalecastControl", "StalecastDaemon", "StalecastEdge", "StalecastEtcd",
                "StalecastHTTP", "StalecastHub", "StalecastOutbound", "StalecastStore", "StalecastTemplate",
                "StalecastWire",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Yams", package: "Yams"),
            ],
            swiftSettings: tests),
    ]
)

// The SDK needs no other package: all of them are the daemon's.
for target in package.targets {
    target.dependencies = target.dependencies.map { dependency in
        guard case .productItem(let name, let package, let aliases, _) = dependency else { return dependency }
        return .productItem(
            name: name, package: package, moduleAliases: aliases, condition: .when(traits: ["Daemon"]))
    }
}
