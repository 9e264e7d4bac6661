import HTTPTypes
import HummingbirdCore
import NIOCore

/// Between Hummingbird's types and ours. The order matters: a stranger's body is never read.
struct HummingbirdAdapter: Sendable {
    let responder: ControlResponder

    @concurrent
    func serve(_ request: Request, _ writer: consuming ResponseWriter) async throws {
        let ours = Self.controlRequest(request)
        let route: Route
        do throws(GoogleError) {
            route = try responder.admit(ours)
            try checkDeclaredLength(request, route)
        } catch {
            let refusal = Self.hasBody(request) ? error.closing() : error
            return try await write(refusal.answer, "refused", to: writer, request)
        }
        if request.headers[.expect]?.lowercased() == "100-continue" {
            try await writer.writeInformationalHead(HTTPResponse(status: .continue))
        }
        let answer = try await answer(request, ours, route)
        try await write(answer, route.label, to: writer, request)
    }

    /// - Throws: when the body was cut off; there is nobody to answer then, or ``RequestGate`` did it.
    private func answer(_ request: Request, _ ours: ControlRequest, _ route: Route) async throws -> Answer {
        do {
            return await responder.answer(to: ours, route, body: try await body(request, route))
        } catch let error as GoogleError {
            return error.answer
        }
    }

    private func body(_ request: Request, _ route: Route) async throws -> [UInt8] {
        guard Self.hasBody(request) else { return [] }
        var reader = BodyReader(cap: maxBodyBytes(route))
        for try await piece in request.body { try reader.append(piece.readableBytesView) }
        return try reader.finish()
    }

    private func maxBodyBytes(_ route: Route) -> Int {
        route.maxBodyBytes(template: responder.configuration.maxTemplateBytes)
    }

    private func checkDeclaredLength(_ request: Request, _ route: Route) throws(GoogleError) {
        guard let declared = request.headers[.contentLength] else { return }
        guard let length = Int(declared), length <= maxBodyBytes(route) else {
            throw .bodyTooLarge(limit: maxBodyBytes(route))
        }
    }

    private static func hasBody(_ request: Request) -> Bool {
        request.headers[.transferEncoding] != nil || (request.headers[.contentLength] ?? "0") != "0"
    }

    private static func controlRequest(_ request: Request) -> ControlRequest {
        var headers: [String: String] = [:]
        for field in request.headers where headers[field.name.canonicalName] == nil {
            headers[field.name.canonicalName] = field.value
        }
        return ControlRequest(
            method: request.method.rawValue, target: request.head.path ?? "/", headers: headers)
    }

    @concurrent
    private func write(
        _ answer: Answer, _ label: String, to writer: consuming ResponseWriter, _ request: Request
    ) async throws {
        responder.dependencies.observe(label, answer.status)
        let head = Self.head(of: answer)
        if request.method == .head { return try await writer.writeResponse(head) }
        try await writer.write(response: head, body: ResponseBody(byteBuffer: ByteBuffer(bytes: answer.body)))
    }

    private static func head(of answer: Answer) -> HTTPResponse {
        var fields = HTTPFields()
        for field in answer.headers {
            guard let name = HTTPField.Name(field.name) else { continue }
            fields.append(HTTPField(name: name, value: field.value))
        }
        fields[.contentLength] = String(answer.body.count)
        if answer.closesConnection { fields[.connection] = "close" }
        return HTTPResponse(status: .init(code: answer.status), headerFields: fields)
    }
}
