# shellcheck shell=bash disable=SC2034,SC2154
# Webhooks beside libcurl alone, for deploy/bench.sh.

# prepare_webhooks: what they need beside the daemon.
prepare_webhooks() {
    build_daemon
    install_command nginx nginx-light
    install_missing curl libcurl4-openssl-dev
    gcc -O2 -o .build/bench/curlfloor deploy/bench/curlfloor.c -lcurl
}

# start_receivers: a server on port 18096 that answers 204 to every address of 127.0.0.0/8; sets $nginx.
start_receivers() {
    cat >"$data/nginx.conf" <<TEXT
$([[ $EUID != 0 ]] || echo 'user root;') worker_processes 1; daemon off; pid $data/nginx.pid; error_log $data/nginx.log;
events { worker_connections 8192; }
http { access_log off; keepalive_requests 1000000000; keepalive_timeout 600s;
    client_body_temp_path $data/1; proxy_temp_path $data/2; fastcgi_temp_path $data/3; uwsgi_temp_path $data/4;
    scgi_temp_path $data/5; server { listen 18096 backlog=4096; root $data; location = /hook { return 204; }
    location = /count { stub_status; } } }
TEXT
    nginx -c "$data/nginx.conf" -p "$data" 2>/dev/null &
    nginx=$!
}

# add_webhooks COUNT: each on a host of its own.
add_webhooks() {
    local host
    for ((host = 0; host < $1; host++)); do
        ((host == 0)) || echo next
        printf 'url = "%s/v1/projects/demo/webhooks"\nheader = "Authorization: Bearer %s"\n' \
            "$(control_address)" "$(<"$data/control.token")"
        printf 'header = "Content-Type: application/json"\nfail\nsilent\noutput = "/dev/null"\n'
        printf 'data = "{\\"url\\":\\"http://127.100.%d.%d:18096/hook\\"}"\n' $((host / 250)) $((host % 250 + 1))
    done >"$data/requests"
    curl -K "$data/requests"
}

# deliver ROUNDS: prints a line for medians.
deliver() { python3 deploy/bench/deliveries.py "$data" "$daemon" "$1" 1000; }

# compare_webhooks ROUNDS TURNS: libcurl and the daemon in turns, before the same receivers.
compare_webhooks() {
    local nginx before turn
    export STALECAST_WEBHOOKS_ALLOWED_ADDRESSES=127.0.0.0/8
    serve
    start_receivers
    add_webhooks 1000
    # The first makes the connections.
    deliver 2 >"$data/first"
    for ((turn = 0; turn < $2; turn++)); do
        .build/bench/curlfloor 18096 "$1" 64 1000
        deliver "$1"
    done >"$data/turns"
    medians <"$data/turns"
    before=$(spent "$daemon")
    sleep 2
    awk -v spent=$(($(spent "$daemon") - before)) 'BEGIN {printf "idle %.2f ms of CPU a second\n", spent / 2e6}'
    stop_nginx
    end
}
