# shellcheck shell=bash disable=SC2154
# Publishes, and a short count of everything, for deploy/bench.sh.

# many_projects: the section of 64 projects.
many_projects() {
    local count
    for count in {0..63}; do printf '%s{id: p%03d, number: "%d"}' "$( ((count)) && echo ', ')" "$count" $((count + 1000)); done |
        sed 's/.*/projects: [&]/'
    echo
}

# prepare_publishes: sets $projects, and has daemons keep their data on the disk of this folder.
prepare_publishes() {
    build_daemon
    install_command wrk wrk
    gcc -O2 -o .build/bench/fsync deploy/bench/fsync.c
    mkdir -p .build/bench/data
    export TMPDIR=$PWD/.build/bench/data COUNT TOKEN
    projects=$(mktemp)
    many_projects >"$projects"
}

# compare_publish SECONDS: the disk alone, one publisher, 64, and first bytes in turns, each daemon's data on the same disk.
compare_publish() {
    local projects
    prepare_publishes
    for _ in 1 2 3; do
        .build/bench/fsync "$TMPDIR/file" 1000
        for COUNT in 1 64; do measure_publishes "$1"; done
        measure_first_byte 200
    done
    rm -rf "$projects" "$TMPDIR"
}

# measure_first_byte ROUNDS: of a daemon of its own.
measure_first_byte() {
    serve
    python3 deploy/bench/first_byte.py "$data" "$1"
    end
}

# measure_publishes SECONDS: of a daemon of its own, from $COUNT publishers.
measure_publishes() {
    local before after made
    serve --config "$projects"
    TOKEN=$data/control.token
    publishes 1 >/dev/null
    before=$(spent "$daemon") && made=$(allocations)
    publishes "$1" >"$data/wrk"
    after=$(spent "$daemon") && made=$(($(allocations) - made))
    awk -v count="$COUNT" -v spent=$((after - before)) -v made="$made" '
        /Non-2xx|Socket errors/ {bad = 1} /requests in/ {sum = $1} /Requests\/sec/ {rate = $2} /Latency  / {time = $2}
        END {printf "%2d publishers %6.0f a second, %.2f ms of CPU and %.0f allocations each, %s until the answer\n",
            count, rate, spent / 1e6 / sum, made / sum, time; exit bad}' "$data/wrk"
    end
}

# publishes SECONDS: wrk with as many connections as there are projects to publish to.
publishes() {
    wrk -t1 "-c$COUNT" "-d${1}s" --timeout 10s -s deploy/bench/publish.lua "$(control_address)"
}

# compare_counts: what a delivery, a fetch, a publish and a webhook's delivery cost, for a moment each.
compare_counts() {
    local projects floor ours
    prepare_webhooks
    prepare_publishes
    export CODINGS='' BODIES=''

    serve
    floor=$(.build/bench/floor 2000 9 480 | awk '{print $2}')
    "$bin/stalecast" load fanout --subscribers 2000 --rounds 9 --data "$data" >"$data/fanout"
    ours=$(awk '$1 == "median" {print $(NF - 1)}' "$data/fanout")
    beside delivery "$(awk -v ours="$ours" -v floor="$floor" 'BEGIN {
        printf "%.1f us of CPU, %.2f times the floor", ours, ours / floor}')"
    end

    count_fetches

    floor=$(.build/bench/fsync "$TMPDIR/file" 1000 | awk '{print $2}')
    for COUNT in 1 64; do
        ours=$(measure_publishes 2)
        ours=${ours#*publishers}
        beside "publish from $COUNT" "${ours#"${ours%%[! ]*}"}; fdatasync $floor ms"
    done
    measure_first_byte 50 >"$TMPDIR/first"
    beside 'first byte' "$(<"$TMPDIR/first")"

    compare_webhooks 5 3 >"$TMPDIR/webhooks"
    beside webhook "$(sed -n 's/^webhook *//p' "$TMPDIR/webhooks")"
    rm -rf "$projects" "$TMPDIR"
}

# count_fetches: in a shell of its own, because it pins what it starts.
count_fetches() (
    pin
    serve
    template 80 >"$data/template"
    publish_template "$data/template"
    keep_answer http
    start_nginx ''
    # Not in one line: inside "$(…)" a failure would end nothing.
    take_turns http 5 1 >"$data/fetches"
    beside fetch "$(sed -n 's/^fetch *//p' "$data/fetches")"
    stop_nginx
    rush state "$daemon" deploy/bench/state.lua "http://127.0.0.1:$(edge_port)/" 2 >"$data/state"
    beside state "$(awk '{printf "%d a second, %.1f us of CPU and %.1f allocations each", $2, $3, $4}' "$data/state")"
)

# beside NAME FIGURES: prints them, and the last row of that name in figures.md.
beside() {
    local last
    last=$(awk -F ' *[|] *' -v name="$1" '$2 == name {last = $3 " (" $4 ")"} END {print last}' deploy/docs/figures.md)
    printf '%-16s %s\n%-16s last: %s\n' "$1" "$2" '' "${last:-none}"
}
