import CYaml
import StalecastWire

/// Walks through a YAML text as libyaml's parser meets it, without building anything: what would make the tree of its
/// nodes dangerous is known before there is one.
package enum YAMLEvents {
    /// Feature that a text must not have, with the line where it is.
    package enum Obstacle: Sendable, Hashable {
        /// An anchor or an alias. Aliases of aliases grow a short text into a tree of any size.
        case anchor(line: Int)
        case depth(line: Int)
        case count(line: Int)
        /// Too many ``CombiningMarks`` in a row.
        case marks(line: Int)
    }

    /// The first obstacle. nil for a text without one, and for one that is no YAML: composing it gives the reason.
    ///
    /// - Parameters:
    ///   - maxDepth: mappings and lists inside each other; composing and freeing them recurses.
    ///   - maxNodes: values, names, lists and mappings in all, about 170 bytes and 2 µs each when they are composed.
    package static func obstacle(in bytes: [UInt8], maxDepth: Int, maxNodes: Int) -> Obstacle? {
        var parser = yaml_parser_t()
        guard yaml_parser_initialize(&parser) == 1 else { return nil }
        defer { yaml_parser_delete(&parser) }
        return bytes.withUnsafeBufferPointer { buffer in
            yaml_parser_set_input_string(&parser, buffer.baseAddress, buffer.count)
            var (depth, nodes) = (0, 0)
            while let event = next(&parser) {
                let line = event.line
                if event.isAnchored { return .anchor(line: line) }
                if event.hasManyMarks { return .marks(line: line) }
                nodes += event.opens + event.isScalar
                depth += event.opens - event.closes
                if depth > maxDepth { return .depth(line: line) }
                if nodes > maxNodes { return .count(line: line) }
            }
            return nil
        }
    }

    private struct Event {
        let line: Int
        let isAnchored: Bool
        let hasManyMarks: Bool
        /// 1 or 0, as the two below.
        let opens: Int
        let closes: Int
        let isScalar: Int
    }

    /// nil at the end of the text, and at the first thing that is no YAML.
    private static func next(_ parser: inout yaml_parser_t) -> Event? {
        var event = yaml_event_t()
        guard yaml_parser_parse(&parser, &event) == 1, event.type != YAML_STREAM_END_EVENT else { return nil }
        defer { yaml_event_delete(&event) }
        let isAnchored =
            switch event.type {
            case YAML_ALIAS_EVENT: true
            case YAML_SCALAR_EVENT: event.data.scalar.anchor != nil
            case YAML_SEQUENCE_START_EVENT: event.data.sequence_start.anchor != nil
            case YAML_MAPPING_START_EVENT: event.data.mapping_start.anchor != nil
            default: false
            }
        let opens = event.type == YAML_SEQUENCE_START_EVENT || event.type == YAML_MAPPING_START_EVENT
        let closes = event.type == YAML_SEQUENCE_END_EVENT || event.type == YAML_MAPPING_END_EVENT
        return Event(
            line: Int(event.start_mark.line) + 1, isAnchored: isAnchored, hasManyMarks: hasManyMarks(event),
            opens: opens ? 1 : 0, closes: closes ? 1 : 0,
            isScalar: event.type == YAML_SCALAR_EVENT ? 1 : 0)
    }

    private static func hasManyMarks(_ event: yaml_event_t) -> Bool {
        guard event.type == YAML_SCALAR_EVENT else { return false }
        let text = UnsafeBufferPointer(start: event.data.scalar.value, count: event.data.scalar.length)
        return !CombiningMarks.areFew(in: String(decoding: text, as: UTF8.self))
    }
}
