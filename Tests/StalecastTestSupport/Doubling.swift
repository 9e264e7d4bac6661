#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Work that grew faster than its input.
package struct NotLinear: Error, CustomStringConvertible {
    package let description: String
}

/// Measures the CPU time of `work` on inputs of a quarter of `size` and of all of it, and throws when it more than triples
/// where the input doubles, on the average of both steps: twice is linear, four times is quadratic. One step alone may
/// be steeper, where an input outgrows a cache or an array on the stack; its figure is shown with a failure.
///
/// Only this thread's CPU time counts, the least of many runs, so other load on the machine does not. What looks too
/// slow is measured again, because an interruption makes only some runs longer; what really is quadratic is so each time.
///
/// - Parameters:
///   - size: of the largest input, in the unit that `make` counts; of the order a stranger may send. Where only a part
///     of the work is quadratic it shows with a large size only. A debug build takes a quarter
///     of 1,024 and more, unless steps are counted.
///   - make: the input of a size; its time does not count.
///   - work: calls what is measured; that it throws is its result.
///   - clock: what the work has cost so far; nil: the CPU time. A test of the measure itself counts steps instead.
package func expectLinear<Input>(
    upTo size: Int, _ make: (Int) -> Input, _ work: (Input) throws -> Void,
    clock: (() -> UInt64)? = nil
) throws(NotLinear) {
    #if DEBUG
        let size = size < 1024 || clock != nil ? size : size / 4
    #endif
    let cost = clock ?? threadNanoseconds
    let sizes = [size / 4, size / 2, size]
    let inputs = sizes.map(make)
    func time(_ index: Int, _ repetitions: Int) -> UInt64 {
        let began = cost()
        // What a parser says of its input is no concern here.
        for _ in 0..<repetitions { try? work(inputs[index]) }
        return cost() - began
    }
    // The clock and the caches are not noticed beside 0.3 ms.
    var repetitions = 1
    while repetitions < 1 << 16, time(0, repetitions) < 300_000 { repetitions *= 2 }
    var least = sizes.map { _ in UInt64.max }
    func measure(_ index: Int) { least[index] = min(least[index], time(index, repetitions)) }
    for _ in 0..<16 {
        // The smallest is measured twice: a single interruption of it would hide that the work is quadratic.
        for index in [0, 2, 0] { measure(index) }
        if least[2] <= 9 * least[0] { return }
    }
    measure(1)
    let figures = zip(sizes, least).map { "\($0): \($1 / UInt64(repetitions) / 1000) µs" }
    throw NotLinear(description: "CPU more than triples where the input doubles: " + figures.joined(separator: ", "))
}

/// CPU time of this thread.
package func threadNanoseconds() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}
