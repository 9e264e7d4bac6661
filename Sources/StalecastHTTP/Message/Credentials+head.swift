package import StalecastAccess

extension Credentials {
    /// The credentials a request carries, in whatever place.
    package init(_ head: RequestHead) {
        self.init()
        for (name, value) in head.headers {
            switch name.utf8.count {
            case 9 where name.isField("x-api-key"): set(\.apiKey, value)
            case 13 where name.isField("authorization"): set(\.authorization, value)
            case 14 where name.isField("x-goog-api-key"): set(\.googleKey, value)
            default: continue
            }
        }
        read(query: head.query)
    }

    package mutating func read(query: Substring) {
        if query.isEmpty { return }
        for item in query.split(separator: "&") {
            // A value that cannot be decoded is kept as it stands: it must count as a wrong credential, not as none.
            if item.hasPrefix("key=") {
                set(\.queryKey, PercentEncoding.decode(item.dropFirst(4), plusIsBlank: true) ?? String(item))
            } else if item.hasPrefix("ticket=") {
                set(\.ticket, PercentEncoding.decode(item.dropFirst(7), plusIsBlank: true) ?? String(item))
            }
        }
    }

    /// Removes a token of Firebase Installations, which is not a credential here; operations that need it read the
    /// header themselves.
    package mutating func dropInstallationToken() {
        if authorization?.hasPrefix("FIS_v2 ") ?? false { authorization = nil }
    }

    private mutating func set(_ field: WritableKeyPath<Credentials, String?>, _ value: String) {
        if self[keyPath: field] != nil { isRepeated = true }
        self[keyPath: field] = value
    }
}
