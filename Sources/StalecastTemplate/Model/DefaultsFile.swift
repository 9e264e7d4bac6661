import StalecastWire

/// A file of in-app defaults as Firebase's `:downloadDefaults` offers it; raw values are the query's words.
package enum DefaultsFormat: String, Sendable, Hashable, CaseIterable {
    /// Android resources.
    case xml = "XML"
    /// An Apple property list.
    case plist = "PLIST"
    /// A flat object of strings.
    case json = "JSON"

    /// The value of `Content-Type`.
    package var contentType: String {
        switch self {
        case .xml: "application/xml; charset=utf-8"
        case .plist: "application/x-plist; charset=utf-8"
        case .json: "application/json; charset=utf-8"
        }
    }
}

extension Template {
    /// The default values as a file, sorted by parameter name, in UTF-8. Conditional values are left out, and with
    /// them every parameter without a static default; a parameter that uses the in-app default has an empty value.
    package func defaultsFile(_ format: DefaultsFormat) -> [UInt8] {
        switch format {
        case .xml: Array(xmlDefaults.utf8)
        case .plist: Array(plistDefaults.utf8)
        case .json: jsonDefaults.encoded(.pretty) + [0x0A]
        }
    }

    private var defaults: [(key: String, value: String)] {
        allParameters.compactMap { key, parameter in
            switch parameter.defaultValue {
            case .value(let text): (key, text)
            case .inAppDefault: (key, "")
            case .personalization, .rollout, .experiment, nil: nil
            }
        }.sorted { $0.key < $1.key }
    }

    private var jsonDefaults: JSONValue {
        .object(defaults.reduce(into: JSONObject()) { $0[$1.key] = .string($1.value) })
    }

    private var xmlDefaults: String {
        let entries = defaults.map { key, value in
            "  <entry><key>\(key.xmlEscaped)</key><value>\(value.xmlEscaped)</value></entry>\n"
        }
        return """
            <?xml version="1.0" encoding="utf-8"?>
            <defaultsMap>
            \(entries.joined())</defaultsMap>

            """
    }

    private var plistDefaults: String {
        let entries = defaults.map { key, value in
            "  <key>\(key.xmlEscaped)</key>\n  <string>\(value.xmlEscaped)</string>\n"
        }
        return """
            <?xml version="1.0" encoding="UTF-8"?>
            <!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
            <plist version="1.0">
            <dict>
            \(entries.joined())</dict>
            </plist>

            """
    }
}

extension String {
    /// Text as character data of XML 1.0. What XML cannot carry at all (NUL and its like) becomes U+FFFD; a carriage
    /// return is written as a reference, since a parser would turn it into a line feed.
    fileprivate var xmlEscaped: String {
        var escaped = ""
        escaped.reserveCapacity(utf8.count)
        for scalar in unicodeScalars {
            switch scalar {
            case "&": escaped += "&amp;"
            case "<": escaped += "&lt;"
            case ">": escaped += "&gt;"
            case "\r": escaped += "&#13;"
            case "\t", "\n": escaped.unicodeScalars.append(scalar)
            case "\u{0}"..<"\u{20}", "\u{FFFE}", "\u{FFFF}": escaped += "\u{FFFD}"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }
}
