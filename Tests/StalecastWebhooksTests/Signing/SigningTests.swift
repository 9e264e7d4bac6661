import StalecastTestSupport
import StalecastWebhooks
import StalecastWire
import Testing

/// The vectors of reference/webhooks-libcurl.md §1.4: two of Standard Webhooks' library tests, one of Svix's.
private struct Vector: CustomTestStringConvertible, Sendable {
    let secret: String
    let id: String
    let timestamp: Int64
    let body: String
    let signature: String

    var testDescription: String { id }

    static let all = [
        Vector(
            secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
            timestamp: 1_614_265_330,
            body: #"{"test": 2432232314}"#, signature: "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
        Vector(
            secret: "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", id: "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
            timestamp: 1_649_367_553, body: #"{"email":"test@example.com","username":"test_user"}"#,
            signature: "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw="),
        Vector(
            secret:
                "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg==",
            id: "msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp: 1_614_265_330, body: #"{"test": 2432232314}"#,
            signature:
                "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="),
    ]
}

private func at(_ seconds: Int64) -> Timestamp { Timestamp(microseconds: seconds * 1_000_000) }

@Suite struct SigningTests {
    @Test(arguments: Vector.all) private func publishedVectorsAreReproduced(vector: Vector) throws {
        let key = try SigningKey(vector.secret)
        let signer = Signer([Signer.SecretKey(key, createdAt: at(0))])
        let signatures = signer.signatures(
            messageID: vector.id, timestamp: vector.timestamp, body: Array(vector.body.utf8), at: at(vector.timestamp))
        if key.algorithm == .hmacSHA256 { #expect(signatures == vector.signature) }
        // Ed25519 as Apple's library does it is not deterministic; both must be accepted.
        let check = SignatureCheck(key: try VerificationKey(key.publicText ?? vector.secret))
        for signature in [signatures, vector.signature] {
            try check.verify(
                messageID: vector.id, timestamp: String(vector.timestamp), signatures: signature,
                body: Array(vector.body.utf8), at: at(vector.timestamp))
        }
    }

    @Test func aKeyIsPrintedAsItWasRead() throws {
        for vector in Vector.all { #expect(try SigningKey(vector.secret).secretText == vector.secret) }
        #expect(try SigningKey("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n").secretText == Vector.all[0].secret)
        let seed = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbc="
        #expect(try SigningKey(seed).publicText == "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=")
    }

    @Test(arguments: [
        "", "whsec_", "whsec_AAAA", "whsec_!!!!", "whsk_AAAA", "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=",
        "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvw==",
    ])
    func whatIsNoSecretIsRefusedWithoutRepeatingIt(text: String) throws {
        let error = #expect(throws: SigningKey.Invalid.self) { try SigningKey(text) }
        #expect(text.count < 8 || !(error?.description.contains(text) ?? true))
    }

    @Test func everyOldKeySignsUntilItsTime() throws {
        let keys = (0..<3).map { _ in SigningKey.generate(.hmacSHA256) } + [SigningKey.generate(.ed25519)]
        let signer = Signer([
            Signer.SecretKey(keys[0], createdAt: at(0)),
            Signer.SecretKey(keys[1], createdAt: at(0), expiresAt: at(200)),
            Signer.SecretKey(keys[2], createdAt: at(0), expiresAt: at(100)),
            Signer.SecretKey(keys[3], createdAt: at(0), expiresAt: at(200)),
        ])
        let schemes = [99, 100, 199, 200].map { now in
            signer.signatures(messageID: "msg_a", timestamp: 99, body: [1], at: at(now))
                .split(separator: " ").map { $0.prefix { $0 != "," } }
        }
        #expect(schemes == [["v1", "v1", "v1", "v1a"], ["v1", "v1", "v1a"], ["v1", "v1", "v1a"], ["v1"]])
        let both = signer.signatures(messageID: "msg_a", timestamp: 99, body: [1], at: at(150))
        for key in [keys[0], keys[1], keys[3]] {
            try SignatureCheck(key: VerificationKey(key.secretText)).verify(
                messageID: "msg_a", timestamp: "99", signatures: both, body: [1], at: at(99))
        }
        #expect(throws: SignatureCheck.Problem.mismatch) {
            try SignatureCheck(key: VerificationKey(keys[2].secretText)).verify(
                messageID: "msg_a", timestamp: "99", signatures: both, body: [1], at: at(99))
        }
    }

    @Test func aReceiverRefusesWhatIsNotQuiteRight() throws {
        let vector = Vector.all[0]
        let check = SignatureCheck(key: try VerificationKey(vector.secret))
        func problem(
            id: String? = nil, timestamp: String? = nil, signatures: String? = nil, body: String? = nil,
            now: Int64 = 1_614_265_330
        ) -> SignatureCheck.Problem? {
            do throws(SignatureCheck.Problem) {
                try check.verify(
                    messageID: id ?? vector.id, timestamp: timestamp ?? String(vector.timestamp),
                    signatures: signatures ?? vector.signature, body: Array((body ?? vector.body).utf8), at: at(now))
                return nil
            } catch {
                return error
            }
        }
        #expect(problem() == nil)
        #expect(problem(signatures: "v2,AAAA " + vector.signature) == nil)
        #expect(problem(now: 1_614_265_330 + 300) == nil && problem(now: 1_614_265_330 - 300) == nil)
        #expect(problem(now: 1_614_265_330 + 301) == .tooOld(.seconds(301)))
        #expect(problem(now: 1_614_265_330 - 301) == .fromTheFuture(.seconds(301)))
        #expect(problem(id: "msg_other") == .mismatch)
        #expect(problem(body: vector.body + " ") == .mismatch)
        #expect(problem(timestamp: "1614265331") == .mismatch)
        #expect(problem(timestamp: "now") == .notATime("now"))
        #expect(problem(signatures: "v1,") == .mismatch)
        #expect(problem(signatures: String(vector.signature.dropLast(4))) == .mismatch)
        #expect(problem(signatures: "v1a,AAAA") == .noneOfScheme("v1", found: ["v1a"]))
        #expect(problem(signatures: "") == .noneOfScheme("v1", found: []))
        #expect(problem(timestamp: String(Int64.max)) == .notATime(String(Int64.max)))
        #expect(problem(signatures: String(repeating: "v1,A ", count: 15) + vector.signature) == nil)
        #expect(problem(signatures: String(repeating: "v1,A ", count: 16) + vector.signature) == .tooMany)
        #expect(problem(signatures: "v1," + String(repeating: "A", count: 5000)) == .tooMany)
    }

    /// A stranger chooses how many signatures there are, of which length, and the body.
    @Test(arguments: ["v1,", "v1,AAAA", "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="])
    func moreSignaturesCostNextToNothing(word: String) throws {
        let check = SignatureCheck(key: try VerificationKey(Vector.all[0].secret))
        // So long that the body's digest is nearly all of the work for one signature.
        let body = [UInt8](repeating: 0x78, count: 1 << 20)
        func cost(_ count: Int, of word: String) -> UInt64 {
            let signatures = String(repeating: word + " ", count: count)
            // The least of several, of this thread only: what the machine does besides adds to it.
            return (0..<5).map { _ in
                let began = threadNanoseconds()
                // The verdict is no concern here.
                try? check.verify(messageID: "a", timestamp: "1", signatures: signatures, body: body, at: nil)
                return threadNanoseconds() - began
            }.min() ?? 0
        }
        // One that looks good makes the body be read; a word of another length does not.
        let one = cost(1, of: "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
        for count in [2, 4, 8, 16, 17, 400, 800, 3800] {
            let many = cost(count, of: word)
            #expect(many < one * 2, "\(count) signatures cost \(many) ns, one \(one) ns")
        }
    }
}

@Suite struct Base64Tests {
    @Test(arguments: [
        ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
        ("foobar", "Zm9vYmFy"),
    ])
    func theVectorsOfRFC4648(plain: String, encoded: String) {
        #expect(Base64.encode(plain.utf8) == encoded)
        #expect(Base64.decode(encoded) == Array(plain.utf8))
        #expect(Base64.decode(encoded.filter { $0 != "=" }) == Array(plain.utf8))
    }

    @Test(arguments: ["Z", "Zg=", "Zh==", "Zm9=", "Zm9v====", "Z g==", "Zm9v\n", "Zg==Zg==", "-_-_"])
    func whatIsNotCanonicalIsRefused(text: String) { #expect(Base64.decode(text) == nil) }
}
