# shellcheck shell=bash disable=SC2154
# Fetches beside nginx, for deploy/bench.sh.

# rush NAME PID SCRIPT URL SECONDS: wrk; prints requests a second and what each costs, and leaves the first in $rate.
# Of the daemon, allocations too.
rush() {
    local before after made
    before=$(ticks "$2") && made=$(allocations)
    rate=$(wrk -t1 -c64 "-d${5}s" -s "$3" "$4" | awk '
        /Non-2xx|Socket errors/ {bad = 1} /Requests\/sec/ {print $2} END {exit bad}')
    after=$(ticks "$2") && made=$(($(allocations) - made))
    awk -v name="$1" -v rate="$rate" -v ticks=$((after - before)) -v seconds="$5" -v made="$made" 'BEGIN {
        sum = rate * seconds
        printf "%-6s %8.0f a second, %6.1f us of CPU each", name, rate, ticks * 10000 / sum
        print name == "nginx" ? "" : sprintf(", %.1f allocations", made / sum)}'
}

# edge_port: of the public listener of the daemon that runs.
edge_port() { sed -E 's/.*"edge":"[^"]*:([0-9]+)".*/\1/' "$data/endpoints.json"; }

# publish_template FILE: to the daemon that runs.
publish_template() { control /v1/projects/demo/remoteConfig -X PUT -H 'If-Match: *' --data-binary "@$1"; }

# keep_answer SCHEME: what one client fetches, in $data/answer.json.
keep_answer() {
    curl -kfsS -o "$data/answer.json" "$1://127.0.0.1:$(edge_port)/v1/projects/demo/namespaces/firebase:fetch" -d '{
        "appId":"1:1:android:1","appInstanceId":"i","appInstanceIdToken":"t","countryCode":"GB","appVersion":"4.2.1",
        "customSignals":{"city":"york","tier":"2"}}'
}

# start_nginx LISTEN LINE…: serves $data on port 18900 with these lines in its server; sets $nginx.
start_nginx() {
    cat >"$data/nginx.conf" <<TEXT
$([[ $EUID != 0 ]] || echo 'user root;') worker_processes auto; daemon off; pid $data/nginx.pid; error_log $data/nginx.log;
worker_rlimit_nofile 20000; events { worker_connections 16384; }
http { access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000; keepalive_timeout 600s;
    open_file_cache max=10; client_body_temp_path $data/1; proxy_temp_path $data/2; fastcgi_temp_path $data/3;
    uwsgi_temp_path $data/4; scgi_temp_path $data/5;
    server { listen 127.0.0.1:18900 backlog=4096 $1; root $data; ${*:2} } }
TEXT
    nginx -c "$data/nginx.conf" -p "$data" 2>/dev/null &
    nginx=$!
    sleep 1
}

stop_nginx() {
    kill "$nginx"
    wait "$nginx" || true
}

# compare_fetch KIND SECONDS: three sizes of answers, the daemon and nginx in turns.
compare_fetch() {
    local count rate nginx theirs scheme=http options=() listen=('') certificate
    build_daemon
    install_command wrk wrk
    install_command nginx nginx-light
    install_missing curl
    export CODINGS='' BODIES=''
    case $1 in
    engine) ;;
    front) export STALECAST_EDGE_STREAM_ENGINE=false ;;
    tls)
        certificate=$(mktemp -d)
        "$bin/stalecast" tls dev --to "$certificate" >/dev/null
        options=(--tls-cert "$certificate/localhost.pem" --tls-key "$certificate/localhost.key")
        scheme=https
        listen=(ssl 'ssl_protocols TLSv1.3;' "ssl_certificate $certificate/localhost.pem;"
            "ssl_certificate_key $certificate/localhost.key;")
        ;;
    apple) BODIES=$PWD/.build/bench/apple && python3 deploy/bench/apple.py >"$BODIES" ;;
    gzip) CODINGS=gzip && listen=('' 'gzip_static on;') ;;
    *) usage >&2 && exit 2 ;;
    esac
    for count in 1 80 1900; do
        serve "${options[@]}"
        template "$count" >"$data/template"
        publish_template "$data/template"
        keep_answer "$scheme"
        gzip -9 -k "$data/answer.json"
        printf 'function request() return wrk.format("GET", "/answer.json", {["Accept-Encoding"] = "%s"}) end\n' \
            "${CODINGS:-identity}" >"$data/static.lua"
        start_nginx "${listen[@]}"
        echo "$(wc -c <"$data/answer.json") bytes, $1:"
        for _ in 1 2 3; do
            rush nginx "$nginx" "$data/static.lua" "$scheme://127.0.0.1:18900/" "$2" && theirs=$rate
            rush fetch "$daemon" deploy/bench/fetch.lua "$scheme://127.0.0.1:$(edge_port)/" "$2"
            awk -v ours="$rate" -v theirs="$theirs" 'BEGIN {printf "       %.2f times nginx\n", ours / theirs}'
        done
        stop_nginx
        end
    done
    [[ -z ${certificate:-} ]] || rm -rf "$certificate"
}

# compare_storm CLIENTS ROUNDS: every client fetches at once after each publish.
compare_storm() {
    local nginx
    build_daemon
    install_command nginx nginx-light
    install_missing curl
    gcc -O2 -o .build/bench/storm deploy/bench/storm.c
    serve
    template 80 >"$data/template"
    publish_template "$data/template"
    keep_answer http
    start_nginx ''
    cat >"$data/publish" <<TEXT
sed "s/value 000080/value \$(date +%N)/" $data/template |
    curl -fsS -X PUT -H "Authorization: Bearer $(<"$data/control.token")" -H 'If-Match: *' --data-binary @- \
        -H 'Content-Type: application/json' $(control_address)/v1/projects/demo/remoteConfig |
    sed -n 's/.*"versionNumber":"\([0-9]*\)".*/\1/p'
TEXT
    for _ in 1 2 3; do
        .build/bench/storm file 18900 "$nginx" "$1" "$2"
        .build/bench/storm fetch "$(edge_port)" "$daemon" "$1" "$2" "sh $data/publish"
    done | tee .build/bench/storms
    awk '/^file/ {rate += $2; cpu += $6} /^fetch/ {ours += $2; own += $6}
        END {printf "storm: %.2f times the answers of nginx, %.2f times its CPU\n", ours / rate, own / cpu}' \
        .build/bench/storms
    stop_nginx
    end
}
