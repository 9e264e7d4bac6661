/// The directories whose events matter to somebody.
typealias WatchedPlaces = [String: FileWatch.Names]
