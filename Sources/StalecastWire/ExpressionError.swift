/// Place and reason at which an expression (a template's condition, an FCM topic condition) cannot be understood.
package struct ExpressionError: Error, Hashable, Sendable, CustomStringConvertible {
    /// Characters (Unicode scalars) before the error, from 0.
    package let offset: Int
    /// A sentence without its full stop, for example `a value is expected`.
    package let reason: String

    package init(offset: Int, reason: String) {
        self.offset = offset
        self.reason = reason
    }

    /// Makes an error that was found in UTF-8: `byte` is the number of bytes before it.
    package init(byte: Int, in text: some Collection<UInt8>, reason: String) {
        let isFirstByteOfScalar = { (unit: UInt8) in unit & 0xC0 != 0x80 }
        self.init(offset: text.prefix(byte).count(where: isFirstByteOfScalar), reason: reason)
    }

    /// The reason and the place counted from 1, as an editor's column shows it.
    package var description: String { "\(reason) at character \(offset + 1)" }
}
