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
    /// Keys that belong together are a part of their own, whichever kind has them. A row of ``SourceField`` is a key path
    /// into the parts and names the kinds that have the key, so that only ``SourceFactory`` asks for the kind.
    package struct Feed: Sendable, Equatable, CustomStringConvertible {
        package var scope: Scope
        package var kind: SourceKind
        /// Answer that clients get here for a fed scope.
        package var serve = Serving.full
        /// Time between two polls of the origin; nil: the kind's own.
        package var interval: Duration?
        /// Age of the last successful poll from which the daemon is not ready; zero never is.
        package var maxAge: Duration = .zero
        package var herd = Herd()
        /// Path of a file or directory.
        package var path: String?
        /// URL of the document, or for firebase scheme, host and port.
        package var url: String?
        /// Content of the origin's document.
        package var document = ContentReading()
        /// Most bytes of the document.
        package var maxBytes = 8 << 20
        package var versions = Numbering.origin
        package var access = Access()
        package var firebase = Firebase()
        package var fence = Fence()
        package var triggers = Triggers()

        /// Requests that the origin can take from clients.
        package struct Herd: Sendable, Equatable {
            /// Requests per second; 0 sets no herd window.
            package var budget = 0
            /// Least budget that experience may set; 0 is a tenth of the budget, which is the most.
            package var least = 0
            package var most = 0
            /// The longest herd window.
            package var longest: Duration = .seconds(300)
        }

        /// Requests to the origin.
        package struct Access: Sendable, Equatable {
            package var timeout: Duration = .seconds(15)
            package var headers: [OutboundHeader] = []
            package var tokenFile: String?
            package var tls = OutboundTLS()
        }

        /// Names and credentials at an origin that speaks Firebase's protocol.
        package struct Firebase: Sendable, Equatable {
            /// The origin's names, where they differ from ours.
            package var project: String?
            package var namespace: Namespace?
            package var serviceAccountFile: String?
            package var tokenURL: String?
            /// API key with which the origin's real-time stream is opened.
            package var apiKey: String?
            package var appID: String?
            package var realtimeURL: String?
            package var installationsURL: String?
        }

        /// Check that clients get the new version from the origin, before they are told of it.
        package struct Fence: Sendable, Equatable {
            package var url: String?
            package var caFile: String?
            package var proof = Proof.etag
            package var pointer: JSONPointer?
            package var wait: Duration = .seconds(2)
        }

        /// Files with the credentials of requests that trigger a poll.
        package struct Triggers: Sendable, Equatable {
            package var tokenFiles: [String] = []
            package var secretFiles: [String] = []
        }

        /// Description without headers and keys, which may be secrets.
        package var description: String { "\(kind.rawValue) source of \(scope)" }

        /// Time between two polls. Events report a file's changes; polls find what events miss.
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
