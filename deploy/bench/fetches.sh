# shellcheck shell=bash disable=SC2154
# Fetches beside nginx, for deploy/bench.sh.

# pin: from here on servers run on the first processor that this process may use, with one thread or worker, and wrk on
# the last. Where the scheduler moved them, wrk and a server shared a processor in some turns, and ratios varied by 25 %.
pin() {
    local allowed
    allowed=$(awk '/^Cpus_allowed_list/ {print $2}' /proc/self/status)
    on_first=(taskset -c "${allowed%%[,-]*}") on_last=(taskset -c "${allowed##*[,-]}")
    export STALECAST_EDGE_THREADS=1
}
on_first=() on_last=()

# spent PID: CPU time of a process and its children, in nanoseconds, that of threads that have ended included.
spent() {
    local children
    read -ra children <"/proc/$1/task/$1/children" || true
    python3 -c 'import sys, time; print(sum(time.clock_gettime_ns(~int(each) << 3 | 2) for each in sys.argv[1:]))' \
        "$1" "${children[@]}"
}

# rush NAME PID SCRIPT URL SECONDS: wrk; prints requests a second, microseconds of CPU and allocations of each.
rush() {
    local before after made wrk
    before=$(spent "$2")
    made=$(allocations)
    wrk=$("${on_last[@]}" wrk -t1 -c64 "-d${5}s" -s "$3" "$4" | awk '
        /Non-2xx|Socket errors/ {bad = 1} / requests in/ {sum = $1} /Requests\/sec/ {rate = $2} END {print sum, rate; exit bad}')
    after=$(spent "$2") && made=$(($(allocations) - made))
    awk -v name="$1" -v wrk="$wrk" -v spent=$((after - before)) -v made="$made" 'BEGIN {
        split(wrk, counts)
        printf "%s %.0f %.2f %.1f\n", name, counts[2], spent / 1000 / counts[1], made / counts[1]}'
}

# medians: of lines as rush prints them, which alternate between two servers, and of the ratios of each pair. Between brackets the
# quarters of the pairs.
medians() {
    awk '
        function place(list, count, part, n, m, each) {
            for (n = 2; n <= count; n++)
                for (m = n; m > 1 && list[m - 1] > list[m]; m--) {each = list[m]; list[m] = list[m - 1]; list[m - 1] = each}
            return list[1 + int((count - 1) * part + 0.5)]
        }
        function ratio(list, count) {
            return sprintf("%.2f (%.2f-%.2f)", place(list, count, 0.5), place(list, count, 0.25), place(list, count, 0.75))
        }
        NR % 2 {name = $1; count++; rate[count] = $2; cpu[count] = $3; first = $2; spent = $3}
        !(NR % 2) {own = $1; rate2[count] = $2; cpu2[count] = $3; made[count] = $4; rates[count] = $2 / first; cpus[count] = $3 / spent}
        END {
            printf "%-6s %6.0f a second, %5.1f us of CPU each\n", name, place(rate, count, 0.5), place(cpu, count, 0.5)
            printf "%-6s %6.0f a second, %5.1f us of CPU and %.1f allocations each: %s times the CPU, %s times the rate\n",
                own, place(rate2, count, 0.5), place(cpu2, count, 0.5), place(made, count, 0.5),
                ratio(cpus, count), ratio(rates, count)
        }'
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
$([[ $EUID != 0 ]] || echo 'user root;') worker_processes $( ((${#on_first[@]})) && echo 1 || echo auto); daemon off; pid $data/nginx.pid; error_log $data/nginx.log;
worker_rlimit_nofile 20000; events { worker_connections 16384; }
http { access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000; keepalive_timeout 600s;
    open_file_cache max=10; client_body_temp_path $data/1; proxy_temp_path $data/2; fastcgi_temp_path $data/3;
    uwsgi_temp_path $data/4; scgi_temp_path $data/5;
    server { listen 127.0.0.1:18900 backlog=4096 $1; root $data; ${*:2} } }
TEXT
    "${on_first[@]}" nginx -c "$data/nginx.conf" -p "$data" 2>/dev/null &
    nginx=$!
    sleep 1
}

stop_nginx() {
    kill "$nginx"
    wait "$nginx" || true
}

# take_turns SCHEME TURNS SECONDS: nginx and the daemon, one after the other.
take_turns() {
    local turn
    # The request is made once, as those of fetch.lua are.
    printf 'local r\nfunction init() r = wrk.format("GET", "/answer.json", {["Accept-Encoding"] = "%s"}) end\nfunction request() return r end\n' \
        "${CODINGS:-identity}" >"$data/static.lua"
    for ((turn = 0; turn < $2; turn++)); do
        rush nginx "$nginx" "$data/static.lua" "$1://127.0.0.1:18900/" "$3"
        rush fetch "$daemon" deploy/bench/fetch.lua "$1://127.0.0.1:$(edge_port)/" "$3"
    done | medians
}

# compare_fetch KIND SECONDS: three sizes of answers, the daemon and nginx in turns.
compare_fetch() {
    local count nginx scheme=http options=() listen=('') certificate
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
    pin
    for count in 1 80 1900; do
        serve "${options[@]}"
        template "$count" >"$data/template"
        publish_template "$data/template"
        keep_answer "$scheme"
        gzip -9 -k "$data/answer.json"
        start_nginx "${listen[@]}"
        echo "$(wc -c <"$data/answer.json") bytes, $1:"
        take_turns "$scheme" 9 "$2"
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
