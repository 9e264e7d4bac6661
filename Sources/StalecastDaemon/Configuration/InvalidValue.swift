/// Why the text of one value was refused; `description` is a sentence without the value's name, for the operator.
package struct InvalidValue: Error, Equatable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}
