import StalecastOutbound

extension OutboundURL {
    /// As others than the webhook's owner are told it: tokens are often in the query.
    var withoutQuery: String { String(text.prefix { $0 != "?" }) }
}
