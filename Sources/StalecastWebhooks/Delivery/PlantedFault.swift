#if DEBUG
    /// Defects this had once, put back by tests to show that they are found; not part of a release.
    package enum PlantedFault: CaseIterable, Sendable {
        /// A change of mode while an attempt is under way looks at nothing anew.
        case noRewindInFlight
        /// The store is not read on when a window of versions holds nothing that is heard.
        case oneWindow
        /// A topic taken away takes the cursor along.
        case forgottenTopics
        /// What is sent again is sent newest first.
        case reversedExtras
        /// An outcome counts for whatever the webhook's URL is by now.
        case oldReceiverCounts
        /// A success elsewhere ends the patience a receiver asked for.
        case impatience
        /// Failing is measured by the wall clock, downtimes included.
        case downtimeFails
        /// The cursor stays where it is when a gap was told.
        case forgottenGaps

        @TaskLocal package static var planted: PlantedFault?

        static func `is`(_ fault: PlantedFault) -> Bool { planted == fault }
    }
#endif
