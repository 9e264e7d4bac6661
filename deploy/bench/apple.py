"""Bodies of fetches as Apple's SDK sends them, in gzip, a line of hexadecimal digits each, for fetch.lua."""

import gzip

for n in range(2000):
    city, tier = ("york", "leeds")[n % 2], n % 3
    body = (f"{{app_instance_id:'c{n:021d}', app_instance_id_token:'{'t' * 100}', app_id:'1:123456789012:ios:57a1eca57', "
            "country_code:'gb', language_code:'en_GB', platform_version:'18.1', time_zone:'Europe/London', "
            "package_name:'com.example.app', app_version:'4.2.1', app_build:'421', sdk_version:'12.2.0', "
            "first_open_time:'2026-11-01T10:00:00Z', "
            f'custom_signals:{{"city":"{city}","tier":"{tier}","beta":"true"}}}}')
    print(gzip.compress(body.encode()).hex())
