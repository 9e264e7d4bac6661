-- For wrk: publishes, round robin over COUNT projects. TOKEN is the control token's file.
local n, count, token = 0, tonumber(os.getenv("COUNT")), io.open(os.getenv("TOKEN")):read("*l")

function request()
  n = n + 1
  return wrk.format("PUT", string.format("/v1/projects/p%03d/remoteConfig", n % count), {
    ["Authorization"] = "Bearer " .. token, ["If-Match"] = "*", ["Content-Type"] = "application/json",
  }, string.format('{"parameters":{"p":{"defaultValue":{"value":"%d"}},"q":{"defaultValue":{"value":"same"}}}}', n))
end
