/// Error for an element that has not come.
package struct NotThere: Error, CustomStringConvertible {
    package let description: String
}

extension Array {
    /// The element at an index, of what should have come by now. If there is none, this test fails, where the plain
    /// subscript would end the process and with it all other tests.
    package subscript(required index: Int) -> Element {
        get throws(NotThere) {
            guard indices.contains(index) else { throw NotThere(description: "none at \(index), there are \(count)") }
            return self[index]
        }
    }
}
