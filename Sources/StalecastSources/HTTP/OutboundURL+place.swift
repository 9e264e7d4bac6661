package import StalecastOutbound

extension OutboundURL {
    /// Without the query, which may hold a key.
    package var withoutQuery: String { String(text.prefix { $0 != "?" }) }
}
