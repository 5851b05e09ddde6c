#include "client/load/load_verdict.h"

static bool run_failed(const struct run *run)
{
    const struct tally *t = run->tally;

    return t->counts.n_leaked > 0 || t->counts.n_bad_streams > 0 ||
           t->counts.n_differ > 0 || (run->audited && !run->audit_ok) ||
           (tally_wanted(t) > 0 && t->counts.n_outcomes[OUTCOME_OK] == 0);
}

/* The trials of a search are meant to miss. */
static bool run_missed(const struct result *r, const struct run *run)
{
    uint64_t wanted = tally_wanted(run->tally);

    return !r->searched && objectives_any(&r->objectives) && wanted > 0 &&
           (double)run->tally->counts.n_good <
               r->objectives.attain * (double)wanted;
}

enum load_exit load_verdict(const struct result *r)
{
    enum load_exit code = LOAD_OK;

    for (uint32_t i = 0; i < r->n_runs; i++) {
        const struct run *run = &r->runs[i];

        if (run_failed(run)) {
            return LOAD_FAILED;
        }
        if (run->invalid) {
            code = LOAD_INVALID;
        } else if (code == LOAD_OK && run_missed(r, run)) {
            code = LOAD_MISSED;
        }
    }
    if (r->searched && code == LOAD_OK && search_result(&r->search) <= 0) {
        code = LOAD_MISSED;
    }
    return code;
}
