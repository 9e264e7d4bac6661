import StalecastSources
import StalecastWire
import Yams

extension ConfigurationOption {
    static let sources = [
        feeds,
        ConfigurationOption(
            list: "sources.allowedAddresses", \.sources.allowedAddresses, .addressRange, .restart,
            "Addresses that sources may ask although they are not public, for example 127.0.0.0/8."),
        ConfigurationOption(
            "sources.addressProfile", \.sources.addressProfile, .choice, .restart,
            "public refuses private networks, internal allows them; neither allows loopback."),
    ]

    private static let feeds = ConfigurationOption(
        entries: "sources.scopes", \.sources.scopes,
        [
            .required("scope", "PROJECT/NAMESPACE; unique", "The scope that is fed."),
            .required(
                "kind", "store, file, http or firebase",
                "Where its versions come from; store is our own API, and has only a herd window."),
        ] + SourceField.all.map(\.entry),
        .restart,
        "Scopes whose versions come from outside. They cannot be published to here.",
        spell: { "{scope: \($0.scope), kind: \($0.kind.rawValue)}" },
        read: { $1.feed($0) })
}
