import CCurl
import Foundation
import Testing

/// Memory that libcurl gets from lists of free pieces, one of each thread.
@Suite struct CurlMemoryTests {
    /// Texts of many lengths, kept by libcurl.
    private struct List: @unchecked Sendable {
        let first: UnsafeMutablePointer<curl_slist>?

        init(_ lengths: some Sequence<Int>) {
            first = lengths.reduce(nil) { curl_slist_append($0, String(repeating: Self.letter($1), count: $1)) }
        }

        static func letter(_ length: Int) -> Character { length.isMultiple(of: 2) ? "a" : "b" }

        var lengths: [Int] {
            var lengths: [Int] = []
            var next = first
            while let element = next {
                let text = String(cString: element.pointee.data)
                let count = text.utf8.count
                lengths.append(text == String(repeating: Self.letter(count), count: count) ? count : -1)
                next = element.pointee.next
            }
            return lengths
        }

        func free() { curl_slist_free_all(first) }
    }

    @Test func piecesOfOneThreadAreFreedAndUsedByOthers() async {
        #expect(stalecast_curl_prepare())
        let lengths = [0, 1, 30, 63, 64, 65, 255, 256, 1024, 2047, 2048, 2049, 100_000]
        let lists = await withTaskGroup(of: List.self) { group in
            for _ in 0..<200 { group.addTask { List(lengths) } }
            return await group.reduce(into: [List]()) { $0.append($1) }
        }
        // On a thread that ends, and with it the pieces that it has kept.
        let (done, finish) = AsyncStream.makeStream(of: Bool.self)
        Thread.detachNewThread {
            let areIntact = lists.allSatisfy { list in
                let own = List(lengths)
                defer { [list, own].forEach { $0.free() } }
                return list.lengths == lengths && own.lengths == lengths
            }
            finish.yield(areIntact)
            finish.finish()
        }
        for await areIntact in done { #expect(areIntact) }
    }

    @Test func whatGrowsKeepsItsBytes() {
        #expect(stalecast_curl_prepare())
        for count in [1, 100, 255, 256, 257, 1000, 5000] {
            // Each byte becomes three, one after the other.
            let escaped = curl_easy_escape(nil, String(repeating: "/", count: count), Int32(count))
            #expect(escaped.map { String(cString: $0) } == String(repeating: "%2F", count: count))
            curl_free(escaped)
        }
    }
}
