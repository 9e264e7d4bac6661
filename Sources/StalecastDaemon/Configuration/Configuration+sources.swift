package import StalecastOutbound
package import StalecastSources
package import StalecastWire

extension Configuration {
    /// Origins from which scopes get their versions, when not through the API.
    package struct Sources: Sendable, Equatable {
        /// One for each scope that is fed, or has a herd window.
        package var scopes: [Feed] = []
        /// Ranges that may be asked besides those of the address profile.
        package var allowedAddresses: [CIDR] = []
        /// Whether private networks may be asked.
        package var addressProfile = AddressPolicy.Profile.public
    }

    /// One scope's source.
    ///
    /// Flat, although each kind has keys of its own: a row of ``SourceField`` is a key path into it and names the kinds
    /// that have the key, and only ``SourceFactory`` asks for the kind. Payloads of an enum would need a computed
    /// property for each of these thirty keys, so that a row can reach them, and would say the kinds a second time.
    package struct Feed: Sendable, Equatable, CustomStringConvertible {
        package var scope: Scope
        package var kind: SourceKind
        /// Answer that clients get here for a fed scope.
        package var serve = Serving.full
        /// Time between two looks; nil: the kind's own.
        package var interval: Duration?
        /// Age of the last successful look from which the daemon is not ready; zero never is.
        package var maxAge: Duration = .zero
        /// Requests per second the origin can take; 0 sets no herd window.
        package var herdBudget = 0
        /// Least budget that experience may set; 0 is a tenth of the budget, which is the most.
        package var herdBudgetLeast = 0
        package var herdBudgetMost = 0
        /// The longest herd window.
        package var herdLongest: Duration = .seconds(300)

        /// Path of a file or directory.
        package var path: String?
        /// URL of the document, or for firebase scheme, host and port.
        package var url: String?
        package var format = ContentReading.Format.auto
        package var shape = ContentReading.Shape.template
        package var contentPointer = JSONPointer.whole
        package var versionPointer: JSONPointer?
        package var versions = Numbering.origin
        package var maxBytes = 8 << 20
        package var timeout: Duration = .seconds(15)
        package var headers: [OutboundHeader] = []
        package var tokenFile: String?
        package var caFile: String?
        package var certificateFile: String?
        package var keyFile: String?

        /// The origin's names, where they differ from ours.
        package var originProject: String?
        package var originNamespace: Namespace?
        package var serviceAccountFile: String?
        package var tokenURL: String?
        /// API key with which the origin's real-time stream is opened.
        package var apiKey: String?
        package var appID: String?
        package var realtimeURL: String?
        package var installationsURL: String?

        package var fenceURL: String?
        package var fenceCAFile: String?
        package var fenceProof = Proof.etag
        package var fencePointer: JSONPointer?
        package var fenceWait: Duration = .seconds(2)

        package var triggerTokenFiles: [String] = []
        package var triggerSecretFiles: [String] = []

        /// Description without headers and keys, which may be secrets.
        package var description: String { "\(kind.rawValue) source of \(scope)" }

        /// Time between two looks. A file is heard of by events; looks find what those miss.
        package var effectiveInterval: Duration { interval ?? (kind == .file ? .seconds(5) : .seconds(30)) }

        /// Whether versions come from outside.
        package var isFed: Bool { kind != .store }
    }

    /// Answer of this daemon to clients about a fed scope.
    package enum Serving: String, Sendable, CaseIterable {
        /// Fetches are answered from the copy.
        case full
        /// The origin serves clients; here they only hear of changes.
        case notify
    }

    /// Origin of the version numbers that are used.
    package enum Numbering: String, Sendable, CaseIterable {
        case origin
        /// Counted here, from 1.
        case counted
    }

    /// Part of a fence's answer that shows the version.
    package enum Proof: String, Sendable, CaseIterable {
        case pointer, etag, fetch, content
    }
}
