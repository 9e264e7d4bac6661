import Glibc

extension Shard {
    /// Contradictions between slots and their connections, and those of the audience.
    package func inconsistencies() -> [String] {
        let owners = Set(input.owners)
        let problems = (0..<slots.end).flatMap { index -> [String] in
            let slot = slots[index].pointee
            if owners.contains(index), slot.phase != .head, slot.phase != .verifying {
                return ["slot \(index) has input of a request, and waits for none"]
            }
            guard slot.phase != .free else { return [] }
            var problems: [String] = []
            if slot.phase != .head, isTLS == slot.isPlain { problems.append("slot \(index) and its TLS disagree") }
            if slot.phase == .direct, !slot.isOrdinary { problems.append("slot \(index) is written past its TLS") }
            if case .records = slot.cover, slot.phase != .stream { problems.append("slot \(index) is no stream") }
            if fcntl(slot.fd, F_GETFD) < 0 { problems.append("slot \(index) has no descriptor") }
            return problems
        }
        return audience.inconsistencies() + problems
    }
}
