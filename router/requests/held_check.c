#include "router/requests/held_check.h"

#include <inttypes.h>

#include "common/base/minmax.h"
#include "common/base/plant.h"
#include "router/replicas/place.h"
#include "router/requests/request.h"

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
        if (choice->row.at == choices_of(w)->n_outputs) {
            return error_set(e, ST_DATA_LOSS,
                             "StepOutput has two rows for grant %" PRIu64,
                             m->grant[i]);
        }
        choice->row.at = choices_of(w)->n_outputs;
        choice->row.holds =
            m->finish[i] == SLUICE__V1__FINISH__FINISH_RUNNING &&
            m->state[i] < SLUICE__V1__SEQUENCE_STATE__SEQUENCE_KEPT;
        choice->row.tokens = m->count[i] > 0;
    }
    return ST_OK;
}

/* Returns true if any row that waited would have found room in m.  A message
 * has one reason for all its failures, so a failure with another one waits.
 * A suspension has no row of its own. */
static bool has_all_rows(const struct worker *w, const step_message *m)
{
    if (member_of(w)->replica != NULL || w->grew) {
        return false;
    }
    return m == NULL || (!m->has_failure && m->n_grant < STEP_ROWS_MAX &&
                         m->n_tokens < STEP_TOKENS_MAX &&
                         m->n_logprobs + TOP_LOGPROBS_MAX < STEP_LOGPROBS_MAX);
}

static bool surely_runs(const struct worker *w, const struct choice *choice,
                        uint64_t grant, bool has_all)
{
    if (choice->grant.number > grant || choice->removal.state != REMOVAL_NONE ||
        choice_is_kept(choice) || choice->submit.state == SUBMIT_ADOPTS ||
        (choice->state != CHOICE_PREFILL && choice->state != CHOICE_DECODE)) {
        return false;
    }
    return choice->row.at == choices_of(w)->n_outputs ? choice->row.holds
                                                      : has_all;
}

/* Lower bounds on what the sequences that surely run hold. */
struct least {
    uint64_t own_blocks; /* that no other sequence can have */
    uint64_t shared;     /* most others of one sequence */
    uint64_t windows, slots;
    uint32_t n;
};

/* Returns the blocks of choice that lie past all that it has computed, by its
 * row in the message.  Only full blocks of computed positions are shared.  A
 * row with tokens may not have all of them, and then shows no bound. */
static uint64_t own_blocks(const struct worker *w, const struct choice *choice,
                           uint64_t need)
{
    uint64_t n_computed =
        (uint64_t)choice->request->prompt.n + choice->out.n_generated;
    uint64_t n_full = n_computed / w->shard.block_tokens;

    if (choice->row.at == choices_of(w)->n_outputs && choice->row.tokens) {
        return 0;
    }
    return n_full < need ? need - n_full : 0;
}

/* Returns what choice holds at least.  One that grows holds what it computed:
 * its newest token is not, and may wait for a block.  Before its first token it
 * holds its prompt, of which the newest position is part. */
static struct need least_of(const struct worker *w, const struct choice *choice)
{
    uint32_t n_generated = choice->out.n_generated;
    uint64_t n = (uint64_t)choice->request->prompt.n +
                 (n_generated > 0 ? n_generated - 1 : 0);

    return choice->entry.claim.grows ? worker_need(w, n)
                                     : place_share(w, &choice->grant.need);
}

static void add_sequence(const struct worker *w, const struct choice *choice,
                         struct least *sum)
{
    struct need share = least_of(w, choice);
    uint64_t own = own_blocks(w, choice, share.of[BLOCKS]);

    sum->own_blocks += own;
    sum->shared = max_u64(sum->shared, share.of[BLOCKS] - own);
    sum->windows += share.of[WINDOWS];
    sum->slots += share.of[SLOTS];
    sum->n++;
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
    struct least sum = {0};
    enum status st;

    choices_of(w)->n_outputs++;
    if (m != NULL && mark_rows(w, m, e) != ST_OK) {
        return e->code;
    }
    for (const struct list *at = choices_of(w)->running.next;
         at != &choices_of(w)->running; at = at->next) {
        const struct choice *choice = LIST_OF(at, struct choice, grant.running);

        if (surely_runs(w, choice, l->grant, has_all)) {
            add_sequence(w, choice, &sum);
        }
    }
    if (PLANT(FREE_BELIEVED)) {
        return ST_OK;
    }
    st = compare("blocks", l->blocks, sum.own_blocks + sum.shared, sum.n, e);
    if (st == ST_OK && l->windows != NULL) {
        st = compare("window pages", l->windows, sum.windows, sum.n, e);
    }
    return st == ST_OK ? compare("slots", l->slots, sum.slots, sum.n, e) : st;
}
