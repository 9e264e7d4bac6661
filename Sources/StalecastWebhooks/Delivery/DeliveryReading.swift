import Dispatch

/// Where the store's older versions are read: reading blocks.
enum DeliveryReading {
    static let queue = DispatchQueue(label: "stalecast.deliveries.history")
}
