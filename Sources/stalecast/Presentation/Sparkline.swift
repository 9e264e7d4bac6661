/// Numbers over time in one line of text.
package enum Sparkline {
    private static let steps = Array("▁▂▃▄▅▆▇█")

    /// The last `width` values, oldest first, as parts of the largest; nothing at all is the lowest step.
    ///
    /// - Parameter least: what a full step stands for at least, so that a little does not look like much.
    package static func text(_ values: [Double], width: Int, least: Double = 0) -> String {
        let shown = values.suffix(max(0, width))
        let top = max(least, shown.filter(\.isFinite).max() ?? 0)
        return String(
            shown.map { value in
                guard top > 0, value.isFinite, value > 0 else { return steps[0] }
                return steps[min(steps.count - 1, Int(value / top * Double(steps.count - 1) + 0.5))]
            })
    }
}
