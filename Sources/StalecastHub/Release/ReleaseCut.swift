package import StalecastWire

/// Names a client to a release: 31 bits of a hash of its id, or of its address where it has none, and which of the two.
///
/// Equal at every node and after every restart. Ids that collide are staged together, which harms neither.
package struct ClientKey: Hashable, Sendable {
    package let rawValue: UInt32

    package init(rawValue: UInt32) { self.rawValue = rawValue }

    /// - Parameter id: `client=`, `appInstanceId` or `targetingKey`.
    package init(id: String) {
        self.init(folding: id.utf8.fingerprint, 0)
    }

    /// - Parameter address: the ledger's key of it: an IPv4 address, or the /64 of an IPv6 address.
    package init(address: UInt64) { self.init(folding: address, Self.addressBit) }

    /// False for a client that says its id.
    var isAddress: Bool { rawValue & Self.addressBit != 0 }

    private static let addressBit: UInt32 = 1 << 31

    /// Key of a request that stands for many clients: it belongs to the last stage. One address in 2³¹ shares it.
    package static let everyone = ClientKey(rawValue: .max)

    private init(folding bits: UInt64, _ kind: UInt32) {
        rawValue = UInt32(truncatingIfNeeded: bits.scrambled >> 33) | kind
    }
}

/// Split of a scope's clients into the stages of a release: by a hash of each client's key.
package struct ReleaseCut: Hashable, Sendable {
    /// The buckets that clients fall into, evenly.
    package static let buckets = 10_000

    package let version: VersionNumber
    /// Upper ends of the stages as numbers of buckets (hundredths of a percent), ascending; the last is 10,000.
    package let bounds: [Int]
    /// Clients of the first stage, whatever their bucket.
    package let first: Set<ClientKey>
    /// Whether a client without an id goes by the bucket of its address. Otherwise it belongs to the last stage: it may
    /// fetch with an id that its stream did not say, and must not be told earlier than that id.
    package let splitsAddresses: Bool
    private let salt: UInt64

    /// - Parameter first: ids of clients.
    package init(
        _ scope: Scope, _ version: VersionNumber, bounds: [Int], first: [String] = [], splitsAddresses: Bool = false
    ) {
        self.version = version
        self.bounds = bounds
        self.first = Set(first.map(ClientKey.init(id:)))
        self.splitsAddresses = splitsAddresses
        salt = "\(scope)\0\(version)".utf8.fingerprint
    }

    /// 0 to 9,999.
    package func bucket(of key: ClientKey) -> Int {
        let bits = (UInt64(key.rawValue) ^ salt).scrambled
        return Int(((bits >> 32) * UInt64(Self.buckets)) >> 32)
    }

    /// The place in ``bounds`` of the first stage that covers a client.
    package func stage(of key: ClientKey) -> Int {
        if key == .everyone || key.isAddress && !splitsAddresses { return bounds.count - 1 }
        if first.contains(key) { return 0 }
        let bucket = bucket(of: key)
        return bounds.firstIndex { bucket < $0 } ?? bounds.count - 1
    }
}

extension String.UTF8View {
    /// FNV-1a.
    fileprivate var fingerprint: UInt64 {
        reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x0000_0100_0000_01B3 }
    }
}

extension UInt64 {
    /// The finalizer of SplitMix64: every bit of the value moves every bit of the result.
    var scrambled: UInt64 {
        var bits = self
        bits = (bits ^ bits >> 30) &* 0xBF58_476D_1CE4_E5B9
        bits = (bits ^ bits >> 27) &* 0x94D0_49BB_1331_11EB
        return bits ^ bits >> 31
    }
}

/// Stages of a release that an announcement is for.
package struct ReleaseAudience: Hashable, Sendable {
    /// Places in ``ReleaseCut/bounds``.
    package let stages: Range<Int>
    /// Whether webhooks and the topics themselves are told too: at the last stage, and of a version that takes a
    /// release back.
    package let isWhole: Bool

    package init(stages: Range<Int>, isWhole: Bool) {
        self.stages = stages
        self.isWhole = isWhole
    }

    /// Audience of a commit that no client is told of.
    static let empty = ReleaseAudience(stages: 0..<0, isWhole: false)
}
