/// Numbers over time in one line of text.
package enum Sparkline {
    private static let steps = Array("▁▂▃▄▅▆▇█")

    /// The last `width` values, oldest first, as parts of the largest; nothing at all is the lowest step.
    package static func text(_ values: [Double], width: Int) -> String {
        let shown = values.suffix(max(0, width))
        let top = shown.filter(\.isFinite).max() ?? 0
        return String(
            shown.map { value in
                guard top > 0, value.isFinite, value > 0 else { return steps[0] }
                return steps[min(steps.count - 1, Int(value / top * Double(steps.count - 1) + 0.5))]
            })
    }
}
