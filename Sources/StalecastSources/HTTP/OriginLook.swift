package import StalecastWire

package enum OriginLook: Sendable, Hashable {
    case unchanged
    case seen(OriginSight)
    case failed(OriginProblem)
}

package struct OriginSight: Sendable, Hashable {
    package var content: OriginContent
    package var metadata: VersionMetadata?
    package var etag: String?
    package var isUrgent = false
}
