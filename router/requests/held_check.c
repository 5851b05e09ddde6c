#include "router/requests/held_check.h"

#include <inttypes.h>

#include "common/base/plant.h"
#include "router/replicas/place.h"

typedef Sluice__V1__StepOutputMessage step_message;

/* Marks the choices that have a row in m with the number of this message.  A
 * row of an ending counts as one that holds nothing any more. */
static enum status mark_rows(struct worker *w, const step_message *m,
                             struct error *e)
{
    for (size_t i = 0; i < m->n_grant; i++) {
        struct choice *choice = choice_of_grant(w, m->grant[i]);

        if (choice == NULL) {
            continue;
        }
        if (choice->row_at == w->n_outputs) {
            return error_set(e, ST_DATA_LOSS,
                             "StepOutput has two rows for grant %" PRIu64,
                             m->grant[i]);
        }
        choice->row_at = w->n_outputs;
        choice->row_holds =
            m->finish[i] == SLUICE__V1__FINISH__FINISH_RUNNING &&
            m->state[i] < SLUICE__V1__SEQUENCE_STATE__SEQUENCE_KEPT;
    }
    return ST_OK;
}

/* Returns true if any row that waited would have found room in m.  A message
 * has one reason for all its failures, so a failure with another one waits. */
static bool has_all_rows(const struct worker *w, const step_message *m)
{
    if (w->replica != NULL) {
        return false;
    }
    return m == NULL || (!m->has_failure && m->n_grant < STEP_ROWS_MAX &&
                         m->n_tokens < STEP_TOKENS_MAX &&
                         m->n_logprobs + TOP_LOGPROBS_MAX < STEP_LOGPROBS_MAX);
}

static bool surely_runs(const struct worker *w, const struct choice *choice,
                        uint64_t grant, bool has_all)
{
    if (choice->grant > grant || choice->removal != REMOVAL_NONE ||
        choice->kept || choice->adopting ||
        (choice->state != CHOICE_PREFILL && choice->state != CHOICE_DECODE)) {
        return false;
    }
    return choice->row_at == w->n_outputs ? choice->row_holds : has_all;
}

static enum status compare(const char *name, const Sluice__V1__ClassLedger *c,
                           uint64_t needed, uint32_t n, struct error *e)
{
    uint64_t taken = (uint64_t)c->held + c->granted;

    if (taken >= needed) {
        return ST_OK;
    }
    return error_set(e, ST_DATA_LOSS,
                     "its ledger shows %" PRIu64 " %s held or granted, but "
                     "%" PRIu32 " sequences that run there need %" PRIu64,
                     taken, name, n, needed);
}

enum status held_check(struct worker *w, const Sluice__V1__Ledger *l,
                       const step_message *m, struct error *e)
{
    bool has_all = has_all_rows(w, m);
    struct need sum = {{0}};
    uint32_t n = 0;
    enum status st;

    w->n_outputs++;
    if (m != NULL && mark_rows(w, m, e) != ST_OK) {
        return e->code;
    }
    for (const struct list *at = w->running.next; at != &w->running;
         at = at->next) {
        const struct choice *choice = LIST_OF(at, struct choice, running);

        if (surely_runs(w, choice, l->grant, has_all)) {
            struct need share = place_share(w, &choice->need);

            sum.of[BLOCKS] += share.of[BLOCKS];
            sum.of[SLOTS] += share.of[SLOTS];
            n++;
        }
    }
    if (PLANT(FREE_BELIEVED)) {
        return ST_OK;
    }
    st = compare("blocks", l->blocks, sum.of[BLOCKS], n, e);
    return st == ST_OK ? compare("slots", l->slots, sum.of[SLOTS], n, e) : st;
}
