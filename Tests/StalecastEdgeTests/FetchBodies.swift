import Foundation
import StalecastEdge
import StalecastHTTP
import StalecastTemplate
import StalecastWire

/// Bodies of `:fetch` as the four SDKs send them, byte for byte.
enum FetchBodies {
    static let js = """
        {"sdk_version":"12.18.0","app_instance_id":"cAbCdEfGhIjKlMnOpQrStU","app_instance_id_token":"eyJ.a.b",\
        "app_id":"1:123456789012:web:0a1b2c3d4e5f","language_code":"en-US","custom_signals":{"plan":"pro"}}
        """
    static let android = """
        {"appInstanceId":"dAbCdEfGhIjKlMnOpQrStU","appInstanceIdToken":"eyJ.a.b",\
        "appId":"1:123456789012:android:0a1b2c","countryCode":"US","languageCode":"en-US","platformVersion":"34",\
        "timeZone":"Europe/Paris","appVersion":"2.1.0","appBuild":"210","packageName":"com.example.app",\
        "sdkVersion":"23.0.0","analyticsUserProperties":{},"firstOpenTime":"2026-01-05T10:00:00.000Z"}
        """
    static let ios = """
        {app_instance_id:'eAbCdEfGhIjKlMnOpQrStU', app_instance_id_token:'eyJ.a.b', \
        app_id:'1:123456789012:ios:0a1b2c', country_code:'us', language_code:'en_US', platform_version:'18.1', \
        time_zone:'Europe/Paris', package_name:'com.example.app', app_version:'2.1.0', app_build:'210', \
        sdk_version:'12.2.0', first_open_time:'2026-01-05T10:00:00Z', analytics_user_properties:{"plan":"pro"}, \
        custom_signals:{"city":"york"}}
        """
    /// ``ios`` in gzip, as it is sent.
    static let iosPacked = [UInt8](
        Data(
            base64Encoded: """
                H4sIAAAAAAACA12QTU8DIRiE/4rZSy8WAW2t3IxpjBqjpvbihbDsuyvuLhA+jGvT/+6LqcaYcJp5mBnYKe+lsTEpq0GaRszgsr5q1u31683b3X\
                BvH/xT2KTt7PjoHymT68EiP90SReofABOYYPz0bLE8X11QxoVxUVDFaq6R0S7bFCapXQNiliNKg7JdVh0cNLByu0HZDyq1LozyHUI0DpvYijA0\
                khlBfjqL7DoH5+HkUQVTkrzSfQmyakRTu5HAhxr9AASnHQb+pnHCCD2IdTYDDuesCLHp/3Rywr+x1oSYJLZZWQYgTPlyTtmcLp4ZFbSclxJn1T\
                Alo6PMEYL0ZWBIBqLYVfgkW4kKtWqPX5FjcqOMpsMrxdYmTWhPLvTVfv8F4bPs/5oBAAA=
                """)!)
    static let cpp = """
        {"appId":"1:123456789012:android:0a1b2c","appInstanceId":"fAbCdEfGhIjKlMnOpQrStU",\
        "appInstanceIdToken":"eyJ.a.b","countryCode":"US","languageCode":"en-US","platformVersion":"2",\
        "timeZone":"","packageName":"com.example.desktop","sdkVersion":"12.0.0","analyticsUserProperties":{}}
        """
    static let all = [js, android, ios, cpp]

    static func context(_ text: String) throws -> EvaluationContext {
        try FetchRequest.context(try RequestBody.object(Array(text.utf8), cap: 65_536), at: .now())
    }
}

extension TemplateChange {
    /// Version `version` of `scope`; its sequence is the version.
    static func fetchable(_ version: VersionNumber, of scope: Scope = LiveEdge.scope) -> TemplateChange {
        TemplateChange(
            scope: scope, sequence: CommitSequence(version.rawValue),
            metadata: VersionMetadata(number: version, updateTime: .now()), etag: "etag-1-\(version)",
            changedKeys: nil)
    }
}

extension Template {
    /// Parameters with one value each.
    static func of(_ values: [String: String]) -> Template {
        Template(parameters: values.mapValues { TemplateParameter(defaultValue: .value($0)) })
    }
}
