# lib.sh - what the system tests share: a cluster of real daemons in a
# temporary directory, and checks that say what they wanted.
#
# Each test is a script that sources this file; its daemons talk over ipc in
# its own directory, so that tests run side by side without a port in common,
# and whatever is left at the end is stopped by the trap.
# shellcheck shell=bash
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=${SLUICE_BIN:-$root/build/release/bin}
model=$root/models/tiny-hybrid
dir=$(mktemp -d "${TMPDIR:-/tmp}/sluice.XXXXXX")
workers_at=ipc://$dir/workers
clients_at=ipc://$dir/clients
export SLUICE_ROUTER=$clients_at
# Of a machine that is busy, under sanitizers too: what passes does not wait.
patience=${SLUICE_PATIENCE:-60}
# By what tests that make many tokens divide them, for the same reason.
shorter=${SLUICE_SHORTER:-1}
declare -A pid_of=()
out='' err='' rc=0

cleanup()
{
    local status=$? name

    trap - EXIT
    if declare -F at_end >/dev/null; then at_end; fi # of the test itself
    for name in "${!pid_of[@]}"; do
        kill -KILL "${pid_of[$name]}" 2>/dev/null || true
    done
    wait 2>/dev/null || true
    if [ "$status" -ne 0 ]; then
        tail -n 30 "$dir"/*.log 2>/dev/null || true
    fi
    rm -rf "$dir"
    exit "$status"
}
trap cleanup EXIT

fail()
{
    local i=1

    # The line of the test itself, not of a helper here.
    while [[ ${BASH_SOURCE[$i]} == */lib.sh ]]; do i=$((i + 1)); done
    echo "FAILED at ${BASH_SOURCE[$i]##*/}:${BASH_LINENO[$((i - 1))]}: $*" >&2
    if [ -n "$out$err" ]; then
        printf 'last stdout: %s\nlast stderr: %s\nlast exit code: %s\n' \
            "$out" "$err" "$rc" >&2
    fi
    exit 1
}

equal()
{
    [ "$2" = "$3" ] || fail "$1: wanted \"$2\", got \"$3\""
}

# matches WHAT REGEX TEXT
matches()
{
    [[ $3 =~ $2 ]] || fail "$1: \"$3\" does not match \"$2\""
}

# until_true SECONDS COMMAND...: poll until it succeeds.
until_true()
{
    local end=$((SECONDS + $1))
    shift

    while ! "$@"; do
        if [ "$SECONDS" -ge "$end" ]; then return 1; fi
        sleep 0.05
    done
}

# run COMMAND...: its stdout, stderr and exit code in out, err and rc.
run()
{
    rc=0
    "$@" >"$dir/out" 2>"$dir/err" </dev/null || rc=$?
    out=$(tr -d '\0' <"$dir/out")
    err=$(tr -d '\0' <"$dir/err")
}

ctl()
{
    run "$bin/sluicectl" "$@"
}

has_output()
{
    [ -s "$dir/$1.out" ] || ! kill -0 "${pid_of[$1]}" 2>/dev/null
}

# python_test ARGUMENTS...: a test in Python, from standard input, with ctl.py.
python_test()
{
    SLUICE_BIN=$bin PYTHONDONTWRITEBYTECODE=1 \
        PYTHONPATH=$root/tests/system python3 - "$@"
}

# start NAME COMMAND...: in the background, until it prints its ready line.
start()
{
    local name=$1
    shift

    : >"$dir/$name.out" # of one of this name before
    "$@" >"$dir/$name.out" 2>"$dir/$name.log" </dev/null &
    pid_of[$name]=$!
    until_true "$patience" has_output "$name" ||
        fail "$name did not get ready"
    [ -s "$dir/$name.out" ] || fail "$name ended before it was ready"
}

start_router()
{
    start router "$bin/sluice-router" --workers "$workers_at" \
        --clients "$clients_at" --model tiny-hybrid="$model" "$@"
}

is_up()
{
    "$bin/sluicectl" workers --json 2>/dev/null | grep -q "\"name\":\"$1\""
}

# start_worker NAME OPTIONS...
start_worker()
{
    local name=$1
    shift

    start "$name" "${bin_of_worker:-$bin}/sluice-worker" --model "$model" \
        --router "$workers_at" --name "$name" "$@"
    until_true "$patience" is_up "$name" || fail "$name did not join"
}

# start_slow_worker NAME OPTIONS...: step_ms (3) a step at least, so that a
# stream that was seen to run is still there a moment later, however fast the
# machine.
start_slow_worker()
{
    SLUICE_FAILPOINTS="worker.engine.before_forward=sleep(${step_ms:-3})" \
        bin_of_worker=$bin/../tests start_worker "$@"
}

start_cluster()
{
    start_router
    start_worker w1 "$@"
}

replicas_are()
{
    ctl status --json
    [ "$rc" -eq 0 ] && [ "$(field n_replicas "$out")" -eq "$1" ]
}

# Of several stages, that are up.
await_replicas()
{
    until_true "$patience" replicas_are "$1" ||
        fail "there are never $1 replicas up"
}

# start_stream OPTIONS...: in the background until some of its ids are there.
start_stream()
{
    : >"$dir/stream.out"
    "$bin/sluicectl" "$@" --figures >"$dir/stream.out" 2>"$dir/stream.err" \
        </dev/null &
    pid_of[stream]=$!
    until_true "$patience" has_some || fail 'no first tokens'
}

has_some()
{
    [ "$(wc -w <"$dir/stream.out")" -ge 5 ]
}

# Until it ends: its stdout, stderr and exit code in out, err and rc.
await_stream()
{
    rc=0
    wait "${pid_of[stream]}" || rc=$?
    unset 'pid_of[stream]'
    out=$(cat "$dir/stream.out") err=$(cat "$dir/stream.err")
}

# end_of_stream WANTED WHAT: its ids are those, though it was moved by WHAT.
end_of_stream()
{
    await_stream
    equal "exit code after $2" 0 "$rc"
    equal "tokens after $2" "$1" "$out"
    matches "figures after $2" 'moved +[1-9]' "$err"
}

# stop NAME [SIGNAL]: its exit code in rc.
stop()
{
    local name=$1

    kill "-${2:-TERM}" "${pid_of[$name]}"
    rc=0
    wait "${pid_of[$name]}" 2>/dev/null || rc=$?
    unset "pid_of[$name]"
}

# field PATH FILE-OR-JSON: jq is not everywhere, python3 is.
field()
{
    python3 -c '
import json, sys
value = json.loads(sys.argv[2])
for key in sys.argv[1].split("."):
    value = value[int(key)] if isinstance(value, list) else value[key]
print(json.dumps(value) if isinstance(value, (dict, list, bool)) else value)
' "$1" "$2"
}

# There are workers, and none holds or has promised anything.
is_idle()
{
    "$bin/sluicectl" workers --json | python3 -c '
import json, sys
workers = json.load(sys.stdin)["workers"]
if not workers:
    sys.exit(1)
for w in workers:
    for kind in ("blocks", "slots"):
        ledger = w["ledger"][kind]
        if ledger["held"] or ledger["granted"]:
            sys.exit(1)
'
}

no_sequence()
{
    ctl sequences --json
    [ "$rc" -eq 0 ] && [ "$(field sequences "$out")" = '[]' ]
}

nothing_is_held()
{
    until_true "$patience" is_idle || fail 'memory is still held, or no worker is there'
    until_true "$patience" no_sequence || fail 'a sequence is still listed'
    ctl audit --json
    equal 'exit code of audit' 0 "$rc"
    equal 'differences' 0 "$(field n_differences "$out")"
}
