/// Meaning of the app's version, by the parameter `update_version`: `{"force":"1.0.0","recommend":"1.2.0"}`.
enum UpdateAdvice: String, Sendable, Equatable {
    case none, recommend, force
}

/// A version such as `1.10.2`, compared number by number: 1.10 is newer than 1.9.
struct AppVersion: Comparable, Sendable, CustomStringConvertible {
    private let numbers: [Int]
    let description: String

    /// Nil for a text that is not numbers with dots between them.
    init?(_ text: String) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false).map { Int($0) }
        guard !parts.isEmpty, parts.allSatisfy({ $0 != nil && $0! >= 0 }) else { return nil }
        numbers = parts.compactMap { $0 }
        description = text
    }

    static func < (a: Self, b: Self) -> Bool {
        for index in 0..<max(a.numbers.count, b.numbers.count) {
            let left = index < a.numbers.count ? a.numbers[index] : 0
            let right = index < b.numbers.count ? b.numbers[index] : 0
            if left != right { return left < right }
        }
        return false
    }

    static func == (a: Self, b: Self) -> Bool { !(a < b) && !(b < a) }
}

/// The parameter's value. A member that is missing or is no version asks for nothing: a slip in the console must not
/// lock all users out.
struct UpdateVersions: Decodable, Sendable {
    let force: String?
    let recommend: String?

    func advice(for version: AppVersion) -> UpdateAdvice {
        if let least = force.flatMap(AppVersion.init), version < least { return .force }
        if let wanted = recommend.flatMap(AppVersion.init), version < wanted { return .recommend }
        return .none
    }
}
