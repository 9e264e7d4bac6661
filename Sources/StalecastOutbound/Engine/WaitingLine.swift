/// What waits, first come first served.
struct WaitingLine<Element> {
    private var elements: [Element] = []
    private var first = 0

    var count: Int { elements.count - first }

    mutating func append(_ element: Element) { elements.append(element) }

    /// Nil when nobody waits.
    mutating func takeFirst() -> Element? {
        guard first < elements.count else { return nil }
        defer {
            first += 1
            if first > 1024 || first == elements.count {
                elements.removeFirst(first)
                first = 0
            }
        }
        return elements[first]
    }

    /// Nil when no such element waits here.
    mutating func removeFirst(where isMeant: (Element) -> Bool) -> Element? {
        elements[first...].firstIndex(where: isMeant).map { elements.remove(at: $0) }
    }
}
