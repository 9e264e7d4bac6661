-- For wrk: 2,000 app instances fetch, each with an id of its own, as the Android SDK does. Two cities and three tiers make
-- six outcomes. The requests are made beforehand, so that they cost as much as those for a static file. CODINGS is what
-- `Accept-Encoding` says; BODIES a file with 2,000 other bodies, see apple.py.
local requests, count = {}, 0
local codings = os.getenv("CODINGS")
local bodies = os.getenv("BODIES")

local function packed(lines)
  return (lines():gsub("..", function(digits) return string.char(tonumber(digits, 16)) end))
end

function init()
  local lines = bodies and bodies ~= "" and io.lines(bodies)
  for n = 0, 1999 do
    local body = string.format('{"appInstanceId":"c%021d","appInstanceIdToken":"%s","appId":"1:123456789012:android:57a1eca57",' ..
      '"countryCode":"GB","languageCode":"en-GB","platformVersion":"34","timeZone":"Europe\\/London","appVersion":"4.2.1",' ..
      '"appBuild":"421","packageName":"com.example.app","sdkVersion":"22.1.0","analyticsUserProperties":{},' ..
      '"customSignals":{"city":"%s","tier":"%d","beta":true},"firstOpenTime":"2026-11-01T10:00:00.000Z"}',
      n, string.rep("t", 100), n % 2 == 0 and "york" or "leeds", n % 3)
    requests[n] = wrk.format("POST", "/v1/projects/demo/namespaces/firebase:fetch", {
      ["Content-Type"] = "application/json", ["Accept"] = "application/json",
      ["Accept-Encoding"] = codings and codings ~= "" and codings or nil,
      ["X-Goog-Api-Key"] = "AIzaSyExampleExampleExampleExample", ["X-Android-Package"] = "com.example.app",
      ["X-Android-Cert"] = "0123456789ABCDEF0123456789ABCDEF01234567", ["X-Google-GFE-Can-Retry"] = "yes",
      ["X-Goog-Firebase-Installations-Auth"] = string.rep("t", 140), ["X-Firebase-RC-Fetch-Type"] = "BASE/1",
      ["User-Agent"] = "Dalvik/2.1.0 (Linux; U; Android 14; Pixel 7)", ["Connection"] = "Keep-Alive",
    }, lines and packed(lines) or body)
  end
end

function request()
  count = count + 1
  return requests[count % 2000]
end
