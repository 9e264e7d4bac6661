extension JSONValue {
    /// A list of texts.
    package static func texts(_ values: some Sequence<some CustomStringConvertible>) -> JSONValue {
        .array(values.map { .string($0.description) })
    }
}
