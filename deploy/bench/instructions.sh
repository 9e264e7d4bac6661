# shellcheck shell=bash disable=SC2034,SC2154
# Instructions of the whole daemon, for deploy/bench.sh: in user space, as callgrind counts them, which load does not disturb.

# execute: sets $instructions to those of the daemon since the last time, and $took to the nanoseconds.
execute() {
    vgdb --pid="$daemon" dump >/dev/null 2>&1
    dumps=$((dumps + 1))
    instructions=$(awk '/^totals:/ {print $2}' "$data/allocations.profile.$dumps")
    took=$(($(date +%s%N) - dumped)) dumped=$(date +%s%N)
}

# count_each NAME BEFORE COMMAND…: prints the instructions of one operation. The command does some operations, and prints how
# many; what an idle daemon executes meanwhile is subtracted, and BEFORE from each.
count_each() {
    local number
    execute
    number=$("${@:3}")
    execute
    each=$(((instructions - idle * took / 1000000000) / number - $2))
    echo "$1: $each instructions each, of $number"
}

# ask SCRIPT: fetches or asks for 4 s on one connection.
ask() { wrk -t1 -c1 -d4s -s "$1" "http://127.0.0.1:$(edge_port)/" | awk '/ requests in/ {print $1}'; }

# deliver_all ROUNDS WEBHOOKS: publishes, and prints how many deliveries, or publishes where there are no webhooks.
deliver_all() {
    # With `&&`: inside "$(…)" a failure would end nothing.
    python3 deploy/bench/deliveries.py "$data" "$daemon" "$1" "$2" >/dev/null && echo $(($1 * ($2 > 0 ? $2 : 1)))
}

# compare_instructions: a fetch, the state, a publish and a webhook's delivery.
compare_instructions() {
    local nginx dumps=0 dumped=0 idle each took instructions
    prepare_webhooks
    install_command wrk wrk
    install_command valgrind valgrind
    install_command strip binutils
    export CODINGS='' BODIES='' STALECAST_EDGE_THREADS=1 STALECAST_WEBHOOKS_ALLOWED_ADDRESSES=127.0.0.0/8
    # Callgrind reads no debug information of newer compilers; the names of functions stay.
    strip --strip-debug -o .build/bench/stalecast "$bin/stalecast"
    bin=.build/bench
    # Without turns a thread that waits for a lock may wait for minutes.
    on_first=(valgrind --tool=callgrind --fair-sched=yes '--callgrind-out-file=%q{ALLOCATIONS}.profile')
    serve
    start_receivers
    template 80 >"$data/template"
    publish_template "$data/template"
    # Begins connections and fills caches, which are not counted.
    ask deploy/bench/fetch.lua >"$data/first"
    deliver_all 3 0 >"$data/first"
    execute
    sleep 4
    execute
    idle=$((instructions * 1000000000 / took))
    echo "idle: $idle instructions a second"
    count_each fetch 0 ask deploy/bench/fetch.lua
    count_each state 0 ask deploy/bench/state.lua
    count_each publish 0 deliver_all 30 0
    add_webhooks 100
    deliver_all 3 100 >"$data/first"
    count_each webhook $((each / 100)) deliver_all 10 100
    stop_nginx
    end
}
