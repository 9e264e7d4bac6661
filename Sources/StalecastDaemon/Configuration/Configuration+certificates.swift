import NIOSSL
import StalecastHTTP
import StalecastOutbound

extension Configuration {
    /// A certificate of the configuration that is not well.
    package struct CertificateFault: Sendable, Hashable {
        /// Key of the configuration that names the file.
        package let key: String
        package let file: String
        /// Begins with the file's name.
        package let sentence: String
        /// False for one that is valid and ends soon.
        package let isInvalid: Bool
    }

    /// Certificates of the listeners, of their clients' authorities and for etcd that have expired, are not valid yet or
    /// end soon. Files that cannot be read have their own problem at ``ConfigurationLoader``. Blocks on the files.
    ///
    /// - Parameter now: seconds since 1970.
    package func certificates(at now: Int) -> [CertificateFault] {
        var faults: [CertificateFault] = []
        for (key, tls) in [("edge.tls", edge.tls), ("control.tls", control.tls)] where !tls.pairs.isEmpty {
            for (index, pair) in tls.pairs.enumerated() {
                let place = index == 0 ? "certificate" : "others[\(index - 1)].certificate"
                faults += fault("\(key).\(place)", pair.certificate, at: now)
            }
            faults += authorities("\(key).clientAuthorities", tls.clientAuthorities, at: now)
        }
        return faults + fault("store.etcd.certificate", store.etcd.certificate, at: now)
    }

    private func fault(_ key: String, _ file: String?, at now: Int) -> [CertificateFault] {
        guard let file, let chain = Self.chain(of: file) else { return [] }
        let judgement = CertificateTerm(chain).judgement(at: now)
        guard let judged = judgement.sentence.map({ "\(file) \($0)" }) else { return [] }
        let isInvalid = if case .invalid = judgement { true } else { false }
        let sentence = isInvalid ? Self.joined(judged, "put a valid one in its place") : judged
        return [CertificateFault(key: key, file: file, sentence: sentence, isInvalid: isInvalid)]
    }

    /// Authorities are no chain: one that has expired takes only its own clients with it.
    private func authorities(_ key: String, _ file: String?, at now: Int) -> [CertificateFault] {
        guard let file, let authorities = Self.chain(of: file) else { return [] }
        let judgements = authorities.map { CertificateTerm([$0]).judgement(at: now) }
        let areAllInvalid = judgements.allSatisfy { if case .invalid = $0 { true } else { false } }
        return judgements.compactMap(\.sentence).map {
            let sentence = "an authority of clients in \(file) \($0)"
            return CertificateFault(
                key: key, file: file,
                sentence: areAllInvalid ? Self.joined(sentence, "no client's certificate is accepted") : sentence,
                isInvalid: areAllInvalid)
        }
    }

    /// Adds a consequence to a judgement, which may be a question about the clock.
    private static func joined(_ judgement: String, _ consequence: String) -> String {
        judgement.hasSuffix("?") ? "\(judgement) If so, \(consequence)" : "\(judgement): \(consequence)"
    }

    private static func chain(of file: String) -> [NIOSSLCertificate]? {
        // A file that cannot be read is another check's problem.
        guard let bytes = try? LocalFile(path: file).bytes else { return nil }
        return try? TLSIdentity.certificates(bytes, file)
    }
}
