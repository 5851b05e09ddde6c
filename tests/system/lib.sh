# lib.sh - Functions shared by the system tests: a cluster of real daemons in a
# temporary directory, and checks that print the expected value.
#
# Each test is a script that sources this file.  Its daemons use ipc endpoints
# in its own directory, so tests run side by side without sharing a port.  A
# trap stops the daemons that are left at the end.
# shellcheck shell=bash
set -euo pipefail

unset CDPATH # cd would search it
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=${SLUICE_BIN:-$root/build/release/bin}
model=$root/models/tiny-hybrid
dir=$(mktemp -d "${TMPDIR:-/tmp}/sluice.XXXXXX")
workers_at=ipc://$dir/workers
clients_at=ipc://$dir/clients
export SLUICE_ROUTER=$clients_at
# The files of an installed sluice are not for tests.
export SLUICE_ROUTER_CONFIG=none SLUICE_GATEWAY_CONFIG=none
export SLUICE_WORKER_CONFIG=none
# Seconds to wait for a condition (tests/patience).  A test that passes does not
# wait that long.
export SLUICE_PATIENCE=${SLUICE_PATIENCE:-300}
patience=$SLUICE_PATIENCE
# Divisor for the tokens of long tests, for the same reason.
shorter=${SLUICE_SHORTER:-1}
declare -A pid_of=() url_of=()
out='' err='' rc=0

cleanup()
{
    local status=$? name

    trap - EXIT
    if declare -F at_end >/dev/null; then at_end; fi # the test's own
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
    local i=1 name

    # Report the line of the test, not of a helper in this file.
    while [[ ${BASH_SOURCE[$i]} == */lib.sh ]]; do i=$((i + 1)); done
    echo "FAILED at ${BASH_SOURCE[$i]##*/}:${BASH_LINENO[$((i - 1))]}: $*" >&2
    if [ -n "$out$err" ]; then
        printf 'last stdout: %s\nlast stderr: %s\nlast exit code: %s\n' \
            "$out" "$err" "$rc" >&2
    fi
    for name in "${!pid_of[@]}"; do # why a program in the background ended
        is_running "$name" || tail -v -n 5 "$dir/$name.err" 2>/dev/null || true
    done >&2
    exit 1
}

equal()
{
    [ "$2" = "$3" ] || fail "$1: expected \"$2\", got \"$3\""
}

# matches WHAT REGEX TEXT
matches()
{
    [[ $3 =~ $2 ]] || fail "$1: \"$3\" does not match \"$2\""
}

# until_true SECONDS COMMAND...: polls until COMMAND succeeds.
until_true()
{
    local end=$((SECONDS + $1))
    shift

    while ! "$@"; do
        if [ "$SECONDS" -ge "$end" ]; then return 1; fi
        sleep 0.05
    done
}

# run COMMAND...: sets out, err and rc to its stdout, stderr and exit code.  A
# program that does not end is killed, and the test fails.  A function of the
# test has no limit but that of the whole test, because it runs in this shell.
run()
{
    local limited=() began=$SECONDS most=$((5 * patience))

    if [ "$(type -t "$1")" = file ]; then
        limited=(timeout -k "$patience" "$most")
    fi
    rc=0
    "${limited[@]}" "$@" >"$dir/out" 2>"$dir/err" </dev/null || rc=$?
    out=$(tr -d '\0' <"$dir/out")
    err=$(tr -d '\0' <"$dir/err")
    if [ ${#limited[@]} -gt 0 ] && [ "$rc" -ge 124 ] &&
        [ $((SECONDS - began)) -ge "$most" ]; then
        fail "$* did not end within $most s"
    fi
}

ctl()
{
    run "$bin/sluicectl" "$@"
}

# has_started NAME: it has ended, or has printed a line.  One that waits for the
# router of this test has not started until that has accepted or refused it.
has_started()
{
    local out=$dir/$1.out

    is_running "$1" || return 0
    [ -s "$out" ] || return 1
    ! is_running router || ! grep -q ' waiting for the router: ' "$out" ||
        grep -q ' ready: ' "$out" || grep -q hello-refused "$dir/$1.log"
}

is_running()
{
    [ -n "${pid_of[$1]:-}" ] && kill -0 "${pid_of[$1]}" 2>/dev/null
}

# python_test ARGUMENTS...: runs a Python test from standard input, with ctl.py.
python_test()
{
    SLUICE_BIN=$bin PYTHONDONTWRITEBYTECODE=1 \
        PYTHONPATH=$root/tests/system python3 - "$@"
}

# start NAME COMMAND...: starts a daemon and waits for its ready line; without a
# router, for the line that it waits for one.
start()
{
    local name=$1
    shift

    : >"$dir/$name.out" # an earlier daemon may have had the name
    "$@" >"$dir/$name.out" 2>"$dir/$name.log" </dev/null &
    pid_of[$name]=$!
    until_true "$patience" has_started "$name" ||
        fail "$name printed no ready line within $patience s"
    [ -s "$dir/$name.out" ] || fail "$name exited before its ready line"
}

start_router()
{
    start router "$bin/sluice-router" --workers "$workers_at" \
        --clients "$clients_at" --model tiny-hybrid="$model" "$@"
}

is_up()
{
    "$bin/sluicectl" workers --json 2>/dev/null | grep "\"name\":\"$1\"" >/dev/null
}

# start_worker NAME OPTIONS...: returns when the router lists the worker.
start_worker()
{
    local name=$1
    shift

    start "$name" "${bin_of_worker:-$bin}/sluice-worker" --model "$model" \
        --router "$workers_at" --name "$name" "$@"
    until_true "$patience" is_up "$name" || fail "$name is not listed within $patience s"
}

# start_slow_worker NAME OPTIONS...: a step takes step_ms (default: 3) or more,
# so that a running stream is still running a moment later on any machine.
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

# await_replicas N: waits until N replicas of several stages are up.
await_replicas()
{
    until_true "$patience" replicas_are "$1" ||
        fail "not $1 replicas up within $patience s"
}

# start_stream OPTIONS...: starts a stream of ids and waits for the first ones.
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

# Waits for the end of the stream; sets out, err and rc.
await_stream()
{
    rc=0
    wait "${pid_of[stream]}" || rc=$?
    unset 'pid_of[stream]'
    out=$(cat "$dir/stream.out") err=$(cat "$dir/stream.err")
}

# end_of_stream WANTED EVENT: checks that the stream has the wanted ids although
# EVENT moved it.
end_of_stream()
{
    await_stream
    equal "exit code after $2" 0 "$rc"
    equal "tokens after $2" "$1" "$out"
    matches "figures after $2" 'moved +[1-9]' "$err"
}

# stop NAME [SIGNAL]: sets rc to the daemon's exit code.
stop()
{
    local name=$1

    kill "-${2:-TERM}" "${pid_of[$name]}"
    rc=0
    wait "${pid_of[$name]}" 2>/dev/null || rc=$?
    unset "pid_of[$name]"
}

# field PATH JSON: prints a field.  Uses python3, because jq may be missing.
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

# Succeeds if there are workers and all their pages are free or cached.
is_idle()
{
    "$bin/sluicectl" workers --json | python3 -c '
import json, sys
workers = json.load(sys.stdin)["workers"]
if not workers:
    sys.exit(1)
for w in workers:
    for kind in ("pages", "blocks", "slots", "checkpoints"):
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
    until_true "$patience" is_idle || fail 'memory is still held, or no worker is connected'
    until_true "$patience" no_sequence || fail 'a sequence is still listed'
    ctl audit --json
    equal 'exit code of audit' 0 "$rc"
    equal 'differences' 0 "$(field n_differences "$out")"
}

# start_gateway NAME OPTIONS...: a gateway in front of the router, on a port
# that the kernel chooses.  Sets url_of[NAME].
start_gateway()
{
    local name=$1 address='https?://[^ ,]*'
    shift

    start "$name" "$bin/sluice-gateway" --router "$clients_at" \
        --listen 127.0.0.1:0 --model tiny-hybrid="$model" "$@"
    url_of[$name]=$(grep -Eo -m 1 "$address" "$dir/$name.out") ||
        fail "$name printed no address: $(cat "$dir/$name.out")"
}

# start_scripted_worker NAME: its replies are written in the prompts
# (scripted_worker.c).
start_scripted_worker()
{
    start "$1" "$bin/../tests/scripted_worker" "$workers_at" "$1" "$model" \
        "${step_ms:-1}"
    until_true "$patience" is_up "$1" || fail "$1 is not listed within $patience s"
}

# new_key FILE TENANT [LIMITS]: adds a line to a file of keys and sets key.
new_key()
{
    key=sk-test-$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
    echo "$(printf %s "$key" | sha256sum | cut -d ' ' -f 1) $2 ${3:-}" >>"$1"
}

# find_python: sets `python` to one with the modules of client/python, and
# prepares its environment.  Fails if there is none.
find_python()
{
    export SLUICE_PROTO=$bin/../python PYTHONDONTWRITEBYTECODE=1
    export PYTHONPATH=$root/client/python

    # Another python3 may stand before the one with Debian's packages.
    for python in python3 /usr/bin/python3; do
        if "$python" -c 'import sluice' 2>/dev/null; then return 0; fi
    done
    return 1
}
