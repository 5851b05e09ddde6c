# load.sh - Functions shared by the tests of sluice-load.  Sourced after lib.sh.
# shellcheck shell=bash

# load OPTIONS...: runs sluice-load and keeps its result.  No test checks a
# time, so the generator may be as late as a busy machine makes it.
load()
{
    rm -f "$dir/load.json"
    run timeout "$patience" "$bin/sluice-load" --quiet --max-lag 1m \
        --json "$dir/load.json" "$@"
}

# loaded CODE WHAT OPTIONS...: as load, and checks the exit code.
loaded()
{
    local code=$1 what=$2
    shift 2

    load "$@"
    equal "exit code: $what" "$code" "$rc"
}

# of PATH: prints a member of the last result, such as runs.0.audit_ok.
of()
{
    python3 -c '
import json, sys
with open(sys.argv[1], encoding="utf-8") as f:
    value = json.load(f)
for key in sys.argv[2].split("."):
    value = value[int(key)] if isinstance(value, list) else value[key]
plain = isinstance(value, (str, int, float)) and not isinstance(value, bool)
print(value if plain else json.dumps(value))
' "$dir/load.json" "$1"
}

# ended OUTCOME: prints how many requests of the first run ended so.
ended()
{
    of "runs.0.tally.outcomes.$1"
}

# nothing_leaked: receipts and audit of the first run account for everything.
nothing_leaked()
{
    equal 'leaked' 0 "$(of runs.0.tally.n_leaked)"
    equal 'broken streams' 0 "$(of runs.0.tally.n_bad_streams)"
    equal 'audited' true "$(of runs.0.audited)"
    equal "audit ($(of runs.0.audit))" true "$(of runs.0.audit_ok)"
}

# outputs_equal: outputs were compared, and equal those of their contents alone.
outputs_equal()
{
    matches 'outputs that were compared' '^[1-9]' "$(of runs.0.tally.n_checked)"
    equal 'outputs that differ' 0 "$(of runs.0.tally.n_differ)"
}
