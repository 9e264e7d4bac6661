import Foundation
import GRDB
import StalecastStore
import StalecastTestSupport
import StalecastWire
import Testing

@Suite struct BackupChecksumTests {
    private let directory = try! TemporaryDirectory()
    private let shelf = try! TemporaryDirectory()

    /// The webhooks' part makes the file larger than the pieces in which it is read.
    private func makeBackup(partBytes: Int = 0) async throws -> Data {
        let store = try TemplateStore.make(directory)
        try await store.put(1...3)
        let queue = try DatabaseQueue(path: directory.file("webhooks.sqlite"))
        try await queue.write { db in
            try db.execute(sql: "CREATE TABLE webhook (id BLOB); INSERT INTO webhook VALUES (zeroblob(\(partBytes)))")
        }
        try queue.close()
        try store.backup(to: shelf.file("backup"))
        return try shelf.bytes("backup")
    }

    @Test(arguments: zip([0, 3 << 20], [24, 6]))
    func aChangedBitIsFoundWhereverItIs(partBytes: Int, places: Int) async throws {
        let whole = try await makeBackup(partBytes: partBytes)
        #expect(try TemplateStore.verifyBackup(shelf.file("backup")).hasChecksum)
        // The header is left out: it says whether the file is a backup at all.
        for place in stride(from: 100, to: whole.count, by: whole.count / places) {
            var bytes = whole
            bytes[place] ^= 1
            try shelf.write(bytes, to: "changed")
            let error = #expect(throws: StoreError.self, "byte \(place)") {
                try TemplateStore.verifyBackup(shelf.file("changed"))
            }
            #expect(error?.description.contains("damaged") == true, "byte \(place): \(error?.description ?? "")")
        }
    }

    @Test func aChangedValueIsNotRestored() async throws {
        var bytes = try await makeBackup()
        let place = try #require(bytes.range(of: Data("greeting".utf8)))
        bytes[place.upperBound - 2] ^= 1
        try shelf.write(bytes, to: "changed")
        let other = try TemporaryDirectory()
        let error = #expect(throws: StoreError.self) {
            try TemplateStore.restore(from: shelf.file("changed"), to: other.path)
        }
        #expect(error?.description.contains("checksum") == true, "\(error?.description ?? "")")
        #expect(!FileManager.default.fileExists(atPath: other.database))
    }

    /// Names in the schema, by which a backup without a checksum is known.
    @Test(arguments: [("checksum BLOB", 0), ("tablebackupbackup", 5), ("CREATE TABLE backup", 13)])
    func aDamagedNameIsNoBackupWithoutAChecksum(text: String, offset: Int) async throws {
        var bytes = try await makeBackup()
        let place = try #require(bytes.range(of: Data(text.utf8)))
        bytes[place.lowerBound + offset] ^= 1
        try shelf.write(bytes, to: "changed")
        #expect(throws: StoreError.self) { try TemplateStore.verifyBackup(shelf.file("changed")) }
    }

    @Test func bytesBehindTheEndAreFound() async throws {
        let whole = try await makeBackup()
        try shelf.write(whole + Data(repeating: 0, count: 4096), to: "longer")
        #expect(throws: StoreError.self) { try TemplateStore.verifyBackup(shelf.file("longer")) }
    }

    /// Release 0.2.0 wrote the row without the column.
    @Test func aBackupWithoutAChecksumIsReadAndRestored() async throws {
        _ = try await makeBackup()
        let queue = try DatabaseQueue(path: shelf.file("backup"))
        try await queue.write { try $0.execute(sql: "ALTER TABLE backup DROP COLUMN checksum") }
        try queue.close()
        let summary = try TemplateStore.verifyBackup(shelf.file("backup"))
        #expect(!summary.hasChecksum && summary.madeAt != nil && summary.versions == 3)
        let other = try TemporaryDirectory()
        _ = try TemplateStore.restore(from: shelf.file("backup"), to: other.path)
        #expect(try await TemplateStore.make(other).numbers() == [3, 2, 1])
    }
}
