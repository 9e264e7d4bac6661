package import StalecastWire

/// A named condition; its place in the template's list is its priority.
package struct TemplateCondition: Sendable, Hashable {
    package var name: String
    /// The text as published; ``ConditionExpression`` gives it meaning.
    package var expression: String
    /// Colour in the console; nil when not given.
    package var tagColor: TagColor?

    package init(name: String, expression: String, tagColor: TagColor? = nil) {
        (self.name, self.expression, self.tagColor) = (name, expression, tagColor)
    }

    /// `{"name","expression","tagColor"}`, the last only when there is one.
    package var json: JSONValue {
        [
            "name": .string(name), "expression": .string(expression),
            "tagColor": tagColor.map { .string($0.rawValue) },
        ]
    }
}

/// The colours of conditions; raw values are Firebase's.
package enum TagColor: String, Sendable, Hashable, CaseIterable {
    case unspecified = "CONDITION_DISPLAY_COLOR_UNSPECIFIED"
    case blue = "BLUE"
    case brown = "BROWN"
    case cyan = "CYAN"
    case deepOrange = "DEEP_ORANGE"
    case green = "GREEN"
    case indigo = "INDIGO"
    case lime = "LIME"
    case orange = "ORANGE"
    case pink = "PINK"
    case purple = "PURPLE"
    case teal = "TEAL"
}
