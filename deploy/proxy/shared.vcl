# Shared polls and configs behind Varnish: varnishd -f shared.vcl. Clients that ask with `round=` wait at Varnish for one
# poll at Edge. Everything else is piped through, streams included.
vcl 4.1;

backend stalecast {
    .host = "127.0.0.1";
    .port = "8080";
    # A shared poll is held for two rounds at most: 40 s with `wait=20s`.
    .first_byte_timeout = 90s;
}

sub vcl_recv {
    if (req.method == "GET" && (req.url ~ "^/v1/poll\?(.*&)?round=[0-9]" ||
        req.url ~ "^/v1/projects/[^/]+/namespaces/[^/]+/config\?")) {
        # Varnish would not share the answer to a request with a cookie or a credential; Edge names both in Vary.
        return (hash);
    }
    return (pipe);
}

sub vcl_backend_response {
    # An answer that is over must not be given while the next one is awaited.
    set beresp.grace = 0s;
    set beresp.keep = 0s;
    if (beresp.uncacheable || beresp.http.Cache-Control ~ "no-store") {
        # Errors pass at once, and the next request asks again.
        set beresp.uncacheable = true;
        set beresp.ttl = 0s;
    }
    return (deliver);
}
