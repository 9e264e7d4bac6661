/// A key as etcd has it, with its value.
package struct EtcdKeyValue: Sendable {
    package var key: [UInt8] = []
    package var value: [UInt8] = []
    package var createRevision: Int64 = 0
    package var modRevision: Int64 = 0

    package init(_ bytes: ArraySlice<UInt8>) throws(ProtobufError) {
        try ProtobufReader.each(bytes) { field, value in
            switch field {
            case 1: key = Array(value.slice)
            case 2: createRevision = value.int64
            case 3: modRevision = value.int64
            case 5: self.value = Array(value.slice)
            default: break
            }
        }
    }
}

extension EtcdKeyValue {
    /// The least key after this one.
    var keyAfter: String { String(decoding: key + [0], as: UTF8.self) }
}

/// The keys that a read is about.
package struct EtcdRange: Sendable {
    package var key: String
    /// Exclusive; nil is the one key.
    package var end: String?
    /// 0 is all.
    package var limit = 0
    package var keysOnly = false

    package init(_ key: String, to end: String? = nil, limit: Int = 0, keysOnly: Bool = false) {
        (self.key, self.end, self.limit, self.keysOnly) = (key, end, limit, keysOnly)
    }

    func write(to writer: inout ProtobufWriter) {
        writer.bytes(1, key.utf8)
        if let end { writer.bytes(2, end.utf8) }
        if limit > 0 { writer.number(3, Int64(limit)) }
        writer.flag(8, keysOnly)
    }

    static func result(_ bytes: ArraySlice<UInt8>) throws(ProtobufError) -> [EtcdKeyValue] {
        var found: [EtcdKeyValue] = []
        try ProtobufReader.each(bytes) { (field, value) throws(ProtobufError) in
            if field == 2 { found.append(try EtcdKeyValue(value.slice)) }
        }
        return found
    }
}

/// Condition of a transaction's first list.
package enum EtcdCompare: Sendable {
    case value(String, [UInt8])
    case modRevision(String, Int64)
    /// Create revision of all keys in the range; 0: none is there.
    case createRevision(EtcdRange, Int64)
    case exists(String)

    func write(to writer: inout ProtobufWriter) {
        // EQUAL is 0, the default. Targets: VERSION 0, CREATE 1, MOD 2, VALUE 3.
        switch self {
        case .value(let key, let value):
            writer.number(2, 3)
            writer.bytes(3, key.utf8)
            writer.bytes(7, value)
        case .modRevision(let key, let revision):
            writer.number(2, 2)
            writer.bytes(3, key.utf8)
            writer.number(6, revision)
        case .createRevision(let range, let revision):
            writer.number(2, 1)
            writer.bytes(3, range.key.utf8)
            writer.number(5, revision)
            if let end = range.end { writer.bytes(64, end.utf8) }
        case .exists(let key):
            // GREATER than version 0, which is that of a key that is not there.
            writer.number(1, 1)
            writer.bytes(3, key.utf8)
            writer.number(4, 0)
        }
    }
}

package enum EtcdOperation: Sendable {
    case range(EtcdRange)
    /// Lease 0 means no lease.
    case put(String, [UInt8], lease: Int64 = 0)
    case delete(EtcdRange)

    func write(to writer: inout ProtobufWriter) {
        switch self {
        case .range(let range): writer.message(1) { range.write(to: &$0) }
        case .put(let key, let value, let lease):
            writer.message(2) {
                $0.bytes(1, key.utf8)
                $0.bytes(2, value)
                if lease != 0 { $0.number(3, lease) }
            }
        case .delete(let range):
            writer.message(3) {
                $0.bytes(1, range.key.utf8)
                if let end = range.end { $0.bytes(2, end.utf8) }
            }
        }
    }
}

/// All of `compares` hold and `then` is done, or `otherwise` is; in one step.
package struct EtcdTransaction: Sendable {
    package var compares: [EtcdCompare] = []
    package var then: [EtcdOperation]
    package var otherwise: [EtcdOperation] = []

    package init(
        if compares: [EtcdCompare] = [], then: [EtcdOperation], otherwise: [EtcdOperation] = []
    ) {
        (self.compares, self.then, self.otherwise) = (compares, then, otherwise)
    }

    var encoded: [UInt8] {
        var writer = ProtobufWriter()
        for compare in compares { writer.message(1) { compare.write(to: &$0) } }
        for operation in then { writer.message(2) { operation.write(to: &$0) } }
        for operation in otherwise { writer.message(3) { operation.write(to: &$0) } }
        return writer.bytes
    }

    package struct Result: Sendable {
        package var succeeded = false
        /// The store's, after it.
        package var revision: Int64 = 0
        /// Keys that each read of the chosen list found; empty for the other operations.
        package var found: [[EtcdKeyValue]] = []

        package init(_ bytes: [UInt8]) throws(ProtobufError) {
            try ProtobufReader.each(bytes[...]) { (field, value) throws(ProtobufError) in
                switch field {
                case 1: revision = try Self.revision(value.slice)
                case 2: succeeded = value.isTrue
                case 3: found.append(try Self.operation(value.slice))
                default: break
                }
            }
        }

        private static func operation(_ bytes: ArraySlice<UInt8>) throws(ProtobufError) -> [EtcdKeyValue] {
            var found: [EtcdKeyValue] = []
            try ProtobufReader.each(bytes) { (field, value) throws(ProtobufError) in
                if field == 1 { found = try EtcdRange.result(value.slice) }
            }
            return found
        }

        private static func revision(_ header: ArraySlice<UInt8>) throws(ProtobufError) -> Int64 {
            var revision: Int64 = 0
            try ProtobufReader.each(header) { field, value in if field == 3 { revision = value.int64 } }
            return revision
        }
    }
}

/// Message of a watch.
package struct EtcdWatchResponse: Sendable {
    package var isCreated = false
    package var isCanceled = false
    package var events: [(isDeletion: Bool, keyValue: EtcdKeyValue)] = []

    package init(_ bytes: [UInt8]) throws(ProtobufError) {
        try ProtobufReader.each(bytes[...]) { (field, value) throws(ProtobufError) in
            switch field {
            case 3: isCreated = value.isTrue
            case 4: isCanceled = value.isTrue
            case 11: try take(event: value.slice)
            default: break
            }
        }
    }

    private mutating func take(event: ArraySlice<UInt8>) throws(ProtobufError) {
        var isDeletion = false
        var keyValue: EtcdKeyValue?
        try ProtobufReader.each(event) { (field, value) throws(ProtobufError) in
            if field == 1 { isDeletion = value.isTrue }
            if field == 2 { keyValue = try EtcdKeyValue(value.slice) }
        }
        if let keyValue { events.append((isDeletion, keyValue)) }
    }

    /// Asks for everything from now on.
    static func request(_ range: EtcdRange) -> [UInt8] {
        var writer = ProtobufWriter()
        writer.message(1) {
            $0.bytes(1, range.key.utf8)
            if let end = range.end { $0.bytes(2, end.utf8) }
            $0.flag(8, true)
        }
        return writer.bytes
    }
}
