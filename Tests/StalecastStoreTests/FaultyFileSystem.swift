import GRDBSQLite
import Synchronization

/// A SQLite VFS over the system's own that fails where a test wants it to, and remembers what each file held when it
/// was last synchronised: what a power cut would leave. Installed as the default for the whole process; files nobody
/// armed a fault for behave as ever.
enum FaultyFileSystem {
    enum Fault: Sendable {
        /// fsync reports an I/O error, without having been tried.
        case sync
        /// A write finds no space.
        case full
        /// A write reports an I/O error.
        case write

        var code: Int32 {
            switch self {
            case .sync: SQLITE_IOERR | (4 << 8)
            case .full: SQLITE_FULL
            case .write: SQLITE_IOERR | (3 << 8)
            }
        }
    }

    fileprivate struct State {
        /// Paths and the system's methods, by the address of SQLite's file.
        var files: [UInt: (path: String, methods: UInt)] = [:]
        var faults: [String: Fault] = [:]
        var synchronized: [String: [UInt8]] = [:]
        var syncs: [String: Int] = [:]
        var writes: [String: Int] = [:]
        var bytesRead: [String: Int] = [:]
    }

    fileprivate static let state = Mutex(State())

    /// Makes SQLite use it; once is enough.
    static func install() { _ = installed }

    /// Lets every matching operation on the file fail until ``disarm(_:)``.
    static func arm(_ path: String, _ fault: Fault) { state.withLock { $0.faults[path] = fault } }
    static func disarm(_ path: String) { state.withLock { $0.faults[path] = nil } }

    /// Bytes that the file holds after a power cut now; nil when it was never opened.
    static func afterPowerCut(_ path: String) -> [UInt8]? { state.withLock { $0.synchronized[path] } }

    /// Number of times that the file was synchronised.
    static func syncs(_ path: String) -> Int { state.withLock { $0.syncs[path] ?? 0 } }

    /// Number of times that the file was written to.
    static func writes(_ path: String) -> Int { state.withLock { $0.writes[path] ?? 0 } }

    /// Number of the file's bytes that SQLite read since it was first opened.
    static func bytesRead(_ path: String) -> Int { state.withLock { $0.bytesRead[path] ?? 0 } }

    private static let installed: Bool = {
        let vfs = UnsafeMutablePointer<sqlite3_vfs>.allocate(capacity: 1)
        vfs.pointee = system.pointee
        vfs.pointee.pNext = nil
        vfs.pointee.zName = UnsafePointer(strdupForEver("faulty"))
        vfs.pointee.xOpen = openFile
        return sqlite3_vfs_register(vfs, 1) == SQLITE_OK
    }()

    private static func strdupForEver(_ text: String) -> UnsafeMutablePointer<CChar> {
        let copy = UnsafeMutableBufferPointer<CChar>.allocate(capacity: text.utf8.count + 1)
        _ = copy.initialize(from: text.utf8CString)
        return copy.baseAddress!
    }
}

/// The system's VFS; only ever read.
nonisolated(unsafe) private let system = sqlite3_vfs_find(nil)!

private typealias File = UnsafeMutablePointer<sqlite3_file>
private typealias Methods = UnsafePointer<sqlite3_io_methods>

/// Ours by the address of the system's: a database has others than its log.
private let methods = Mutex<[UInt: UInt]>([:])

private func ourMethods(over original: Methods) -> Methods? {
    let address = methods.withLock { known -> UInt in
        if let address = known[UInt(bitPattern: original)] { return address }
        let ours = UnsafeMutablePointer<sqlite3_io_methods>.allocate(capacity: 1)
        ours.pointee = original.pointee
        ours.pointee.xRead = readFile
        ours.pointee.xSync = syncFile
        ours.pointee.xWrite = writeFile
        ours.pointee.xClose = closeFile
        known[UInt(bitPattern: original)] = UInt(bitPattern: ours)
        return UInt(bitPattern: ours)
    }
    return Methods(bitPattern: address)
}

/// The system's methods for a file that was opened through ``openFile``.
private func systemMethods(of file: File?) -> sqlite3_io_methods {
    let address = FaultyFileSystem.state.withLock { $0.files[UInt(bitPattern: file)]?.methods }
    guard let methods = address.flatMap(Methods.init(bitPattern:)) else { fatalError("the file is not open") }
    return methods.pointee
}

private func path(of file: File?) -> String {
    FaultyFileSystem.state.withLock { $0.files[UInt(bitPattern: file)]?.path ?? "" }
}

private func fault(of file: File?) -> FaultyFileSystem.Fault? {
    FaultyFileSystem.state.withLock { state in
        state.files[UInt(bitPattern: file)].flatMap { state.faults[$0.path] }
    }
}

private let openFile:
    @convention(c) (
        UnsafeMutablePointer<sqlite3_vfs>?, UnsafePointer<CChar>?, UnsafeMutablePointer<sqlite3_file>?, Int32,
        UnsafeMutablePointer<Int32>?
    ) -> Int32 = { _, name, file, flags, outFlags in
        let code = system.pointee.xOpen(system, name, file, flags, outFlags)
        guard code == SQLITE_OK, let file, let name, let original = file.pointee.pMethods else { return code }
        let path = String(cString: name)
        FaultyFileSystem.state.withLock {
            $0.files[UInt(bitPattern: file)] = (path, UInt(bitPattern: original))
        }
        file.pointee.pMethods = ourMethods(over: original)
        let content = contents(of: file)
        FaultyFileSystem.state.withLock {
            if $0.synchronized[path] == nil { $0.synchronized[path] = content }
        }
        return code
    }

private let closeFile: @convention(c) (UnsafeMutablePointer<sqlite3_file>?) -> Int32 = { file in
    let close = systemMethods(of: file).xClose
    FaultyFileSystem.state.withLock { $0.files[UInt(bitPattern: file)] = nil }
    return close!(file)
}

private let syncFile: @convention(c) (UnsafeMutablePointer<sqlite3_file>?, Int32) -> Int32 = { file, flags in
    if case .sync = fault(of: file) { return FaultyFileSystem.Fault.sync.code }
    let code = systemMethods(of: file).xSync(file, flags)
    guard code == SQLITE_OK, let file else { return code }
    let path = path(of: file)
    let content = contents(of: file)
    FaultyFileSystem.state.withLock {
        $0.synchronized[path] = content
        $0.syncs[path, default: 0] += 1
    }
    return code
}

private let readFile:
    @convention(c) (UnsafeMutablePointer<sqlite3_file>?, UnsafeMutableRawPointer?, Int32, sqlite3_int64) -> Int32 = {
        file, bytes, count, offset in
        let path = path(of: file)
        FaultyFileSystem.state.withLock { $0.bytesRead[path, default: 0] += Int(count) }
        return systemMethods(of: file).xRead(file, bytes, count, offset)
    }

private let writeFile:
    @convention(c) (UnsafeMutablePointer<sqlite3_file>?, UnsafeRawPointer?, Int32, sqlite3_int64) -> Int32 = {
        file, bytes, count, offset in
        let path = path(of: file)
        FaultyFileSystem.state.withLock { $0.writes[path, default: 0] += 1 }
        return switch fault(of: file) {
        case .full: FaultyFileSystem.Fault.full.code
        case .write: FaultyFileSystem.Fault.write.code
        case .sync, nil: systemMethods(of: file).xWrite(file, bytes, count, offset)
        }
    }

private func contents(of file: File) -> [UInt8] {
    let methods = systemMethods(of: file)
    var size: sqlite3_int64 = 0
    guard methods.xFileSize(file, &size) == SQLITE_OK, size > 0 else { return [] }
    var bytes = [UInt8](repeating: 0, count: Int(size))
    let code = bytes.withUnsafeMutableBytes { methods.xRead(file, $0.baseAddress, Int32(size), 0) }
    return code == SQLITE_OK ? bytes : []
}
