/// Why the daemon cannot start; `description` is a sentence for the operator.
package struct StartError: Error, CustomStringConvertible {
    package let description: String

    init(_ description: String) { self.description = description }
}
