import ArgumentParser

/// Benchmarks of Edge that count instead of timing, so that two commits can be compared on any machine.
///
/// `deploy/bench.sh` runs `deliver` under callgrind several times and has `figures` make the differences.
@main
struct Benchmarks: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "stalecast-benchmarks",
        abstract: "Counts what one delivery of the stream engine costs.",
        subcommands: [Deliver.self, Figures.self])
}
