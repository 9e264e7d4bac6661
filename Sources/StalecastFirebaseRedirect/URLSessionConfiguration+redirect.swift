import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif
#if canImport(ObjectiveC)
    import ObjectiveC
#endif

/// Firebase makes its sessions from `default` or, since iOS 18.4, from `ephemeral`. A session asks only the protocol
/// classes of its configuration, so the two getters are exchanged for ones that add the redirect.
extension URLSessionConfiguration {
    /// Exchanges the getters when it is read for the first time. Does nothing outside Apple's platforms.
    static let redirectNewOnes: Void = {
        #if canImport(ObjectiveC)
            exchange(
                #selector(getter: URLSessionConfiguration.default), #selector(URLSessionConfiguration.stalecastDefault))
            exchange(
                #selector(getter: URLSessionConfiguration.ephemeral),
                #selector(URLSessionConfiguration.stalecastEphemeral))
        #endif
    }()

    #if canImport(ObjectiveC)
        private static func exchange(_ one: Selector, _ other: Selector) {
            guard let one = class_getClassMethod(URLSessionConfiguration.self, one),
                let other = class_getClassMethod(URLSessionConfiguration.self, other)
            else { return }
            method_exchangeImplementations(one, other)
        }

        // After the exchange each of these names calls the system's own getter.
        @objc dynamic private class func stalecastDefault() -> URLSessionConfiguration {
            redirecting(stalecastDefault())
        }

        @objc dynamic private class func stalecastEphemeral() -> URLSessionConfiguration {
            redirecting(stalecastEphemeral())
        }

        private class func redirecting(_ configuration: URLSessionConfiguration) -> URLSessionConfiguration {
            StalecastFirebaseRedirect.add(to: configuration)
            return configuration
        }
    #endif
}

extension InputStream {
    /// Reads the stream to its end.
    func rest() -> Data {
        var (data, buffer) = (Data(), [UInt8](repeating: 0, count: 1 << 14))
        open()
        defer { close() }
        while case let count = read(&buffer, maxLength: buffer.count), count > 0 { data += buffer[..<count] }
        return data
    }
}
