#include "router/requests/continuation.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/wire/hello.h"
#include "common/wire/request_id.h"
#include "router/replicas/place.h"
#include "router/requests/choice_life.h"
#include "router/requests/leases.h"
#include "router/requests/removal.h"
#include "router/schedule/claims.h"

typedef Sluice__V1__GenerateRequest generate_message;

/* ---- the claim ---- */

static bool same_bytes(const void *a, size_t n, bool has, ProtobufCBinaryData b)
{
    size_t n_b = has ? b.len : 0;

    return n == n_b && (n == 0 || memcmp(a, b.data, n) == 0);
}

static bool same_scope(const struct request *request, const generate_message *m)
{
    return same_bytes(request->scope.tenant_name, request->scope.n_tenant,
                      m->has_tenant, m->tenant) &&
           same_bytes(request->scope.salt, request->scope.n_salt,
                      m->has_cache_salt, m->cache_salt);
}

/* A sequence of another tenant, or with another salt, must look like one that
 * does not exist. */
static struct choice *find_named(const struct requests *r,
                                 const generate_message *m)
{
    const Sluice__V1__SequenceRef *ref = m->continue_from;
    struct request *request =
        request_find(r, ref->request_id.data, ref->request_id.len);

    return request != NULL && ref->choice < request->n_choices &&
                   same_scope(request, m)
               ? &request->choices[ref->choice]
               : NULL;
}

static bool is_continuable(const struct choice *choice)
{
    return lease_is_on(choice) && choice->kept.continued_by == NULL &&
           (choice->kept.state != LEASE_HELD ||
            choice->removal.state == REMOVAL_NONE);
}

enum status continuation_find(const struct requests *r,
                              const struct model *model,
                              const generate_message *m, struct choice **kept,
                              struct error *e)
{
    struct choice *choice;

    *kept = NULL;
    if (m->continue_from == NULL) {
        return ST_OK;
    }
    choice = find_named(r, m);
    if (choice != NULL && choice->state != CHOICE_ENDED) {
        return error_set(e, ST_FAILED_PRECONDITION,
                         "continue_from: the sequence has not ended, its "
                         "state is %s; wait for its last chunk",
                         choice_state_name(choice->state));
    }
    if (choice == NULL || !is_continuable(choice)) {
        return error_set(
            e, ST_NOT_FOUND,
            "continue_from: no sequence of this name, tenant and "
            "cache_salt is kept here; name its cache_salt, or send "
            "the whole prompt");
    }
    if (choice->kept.range != NULL) {
        return error_set(e, ST_UNAVAILABLE,
                         "continue_from: a range of the sequence is being "
                         "removed");
    }
    if (choice->request->model != model) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "continue_from: the sequence is of model %s, not %s",
                         choice->request->model->name, model->name);
    }
    *kept = choice;
    return ST_OK;
}

/* Writes the runs of kept, cut to its ids, to out[SPANS_MAX + 2].  Returns
 * their number. */
static uint32_t copy_spans(const struct choice *kept, uint32_t *out)
{
    const struct request *request = kept->request;
    uint32_t left = choice_n_ids(kept), n = 0;
    const uint32_t *runs = request->prompt.spans;
    uint32_t n_runs = request->prompt.n_spans;

    if (n_runs == 0) { /* all is prompt */
        runs = &request->prompt.n;
        n_runs = 1;
    }
    for (; n < n_runs && left > 0; n++) {
        out[n] = runs[n] < left ? runs[n] : left;
        left -= out[n];
    }
    assert(left <= kept->out.n_generated);
    if (left > 0 && n % 2 == 1) { /* its own tokens follow a run of prompt */
        out[n++] = left;
    } else if (left > 0) { /* ... or those that it went on from */
        out[n - 1] += left;
    }
    return n;
}

/* Returns the generated positions in the runs. */
static uint32_t count_generated(const uint32_t *spans, uint32_t n)
{
    uint32_t sum = 0;

    for (uint32_t i = 1; i < n; i += 2) {
        sum += spans[i];
    }
    return sum;
}

/* Sets where the draws of request go on, whose spans are those of kept.  Tokens
 * behind a removed range are drawn again. */
static void take_draws(struct request *request, const struct choice *kept)
{
    const struct request *old = kept->request;
    uint32_t own = kept->out.n_generated;
    uint32_t had = count_generated(old->prompt.spans, old->prompt.n_spans);
    uint32_t has =
        count_generated(request->prompt.spans, request->prompt.n_spans);
    uint32_t next = old->sampling.draw_index + own, removed = had + own - has;

    if (sampling_goes_on(&request->sampling)) {
        return; /* the client's */
    }
    request->sampling.draw_index = next > removed ? next - removed : 0;
    request->sampling.draw_choice = old->sampling.draw_choice + kept->index;
    request->prompt.draws_open = true;
}

bool continuation_claim(struct requests *r, struct request *request,
                        struct choice *kept)
{
    const struct request *old = kept->request;
    uint32_t n = choice_n_ids(kept);
    uint32_t n_prompt = n < old->prompt.n ? n : old->prompt.n;

    request->prompt.before = malloc(n * sizeof *request->prompt.before);
    request->prompt.spans =
        malloc((SPANS_MAX + 2) * sizeof *request->prompt.spans);
    if (request->prompt.before == NULL || request->prompt.spans == NULL) {
        free(request->prompt.before);
        request->prompt.before = NULL; /* nothing to join */
        return false;
    }
    memcpy(request->prompt.before, old->prompt.ids,
           n_prompt * sizeof *request->prompt.before);
    memcpy(request->prompt.before + n_prompt, kept->out.tokens,
           (n - n_prompt) * sizeof *request->prompt.before);
    request->prompt.n_before = n;
    request->prompt.n_spans = copy_spans(kept, request->prompt.spans);
    take_draws(request, kept);
    if (kept->kept.state != LEASE_HELD) {
        lease_consumed(r, kept);
        return true;
    }
    request->prompt.continues = kept;
    kept->kept.continued_by = request;
    return true;
}

/* A run of prompt that follows another one belongs to it. */
static void add_prompt_run(struct request *request)
{
    if (request->prompt.n == 0) {
        return; /* the kept sequence goes on as it is */
    }
    if (request->prompt.n_spans % 2 == 1) {
        request->prompt.spans[request->prompt.n_spans - 1] += request->prompt.n;
    } else {
        request->prompt.spans[request->prompt.n_spans++] = request->prompt.n;
    }
}

enum status continuation_join(struct request *request, struct error *e)
{
    uint64_t n = (uint64_t)request->prompt.n_before + request->prompt.n;
    uint32_t *before;

    if (request->prompt.before == NULL) {
        return ST_OK;
    }
    if (n > MODEL_CONTEXT_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the continued prompt has %" PRIu64
                         " tokens, at most %d are allowed",
                         n, MODEL_CONTEXT_MAX);
    }
    add_prompt_run(request);
    if (request->prompt.n_spans > SPANS_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the continued prompt has %" PRIu32
                         " runs of prompt and generated tokens, at most %d are "
                         "allowed; send the whole prompt",
                         request->prompt.n_spans, SPANS_MAX);
    }
    before = realloc(request->prompt.before, n * sizeof *before);
    if (before == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         MEMORY_SENTENCE "the router has none left");
    }
    request->prompt.before = before;
    memcpy(request->prompt.before + request->prompt.n_before,
           request->prompt.ids,
           request->prompt.n * sizeof *request->prompt.before);
    free(request->prompt.ids);
    request->prompt.ids = request->prompt.before;
    request->prompt.n = (uint32_t)n;
    request->prompt.before = NULL;
    return ST_OK;
}

/* Keeps choice from places that would draw from index 0. */
static void require_draws(struct choice *choice)
{
    if (sampling_goes_on(&choice->request->sampling)) {
        choice->entry.continued.minor = WIRE_DRAWS_MINOR;
    }
}

void continuation_enqueue(struct choice *choice)
{
    const struct choice *kept = choice->request->prompt.continues;

    if (!choice->request->prompt.draws_open) {
        require_draws(choice);
    }
    if (kept != NULL && !place_drained(kept->grant.worker)) {
        choice->entry.keeper = kept->grant.worker;
        choice->entry.continued.n_kept =
            kept->kept.n_ids > 0 ? kept->kept.n_state : choice_n_ids(kept) - 1;
    } else {
        continuation_drop(choice->request);
    }
}

void continuation_granted(struct request *request, const struct worker *w)
{
    if (!request->prompt.draws_open) {
        return;
    }
    request->prompt.draws_open = false;
    if (!place_speaks(w, WIRE_DRAWS_MINOR)) {
        request->sampling.draw_index = request->sampling.draw_choice = 0;
    }
    for (uint32_t c = 0; c < request->n_choices; c++) {
        require_draws(&request->choices[c]);
    }
}

/* ---- its end ---- */

void continuation_drop(struct request *request)
{
    for (uint32_t c = 0; c < request->n_choices; c++) {
        request->choices[c].entry.keeper = NULL;
    }
    if (request->prompt.continues != NULL) {
        request->prompt.continues->kept.continued_by = NULL;
        request->prompt.continues = NULL;
    }
}

void continuation_lost(struct requests *r, struct choice *kept)
{
    struct request *request = kept->kept.continued_by;

    if (request != NULL) {
        continuation_drop(request);
        model_touch(r->fleet, request->model);
    }
}

static void log_continuation(const struct choice *choice, const char *event)
{
    char id[REQUEST_ID_TEXT];

    request_id_format(choice->request->id, id);
    log_debug(event, "request=%s worker=%s tokens=%" PRIu32, id,
              choice->grant.worker_name, choice->entry.continued.n_kept);
}

/* Ends a kept sequence whose memory its worker has passed on or lost.  If it is
 * being removed, the receipt ends it: callers wait for that. */
static void end_kept(struct requests *r, struct choice *kept)
{
    if (kept->removal.state == REMOVAL_NONE) {
        choice_ungrant(r, kept);
        choice_settle(r, kept);
    }
}

void continuation_accepted(struct requests *r, struct choice *choice)
{
    struct choice *kept = choice->request->prompt.continues;

    continuation_drop(choice->request);
    r->base->metrics.continued++;
    log_continuation(choice, "continued");
    if (kept != NULL) {
        end_kept(r, kept);
    }
}

void continuation_refused(struct requests *r, struct choice *choice,
                          enum status why)
{
    struct choice *kept = choice->request->prompt.continues;

    choice_submit_move(choice, SUBMIT_NONE);
    continuation_drop(choice->request);
    log_continuation(choice, "continuation-refused");
    /* Otherwise it is kept, and its ids differ from the router's. */
    if (kept != NULL && why == ST_NOT_FOUND) {
        end_kept(r, kept);
    }
}

/* Returns true if a sequence at w may still end, and so make room. */
static bool has_running(const struct worker *w)
{
    for (const struct list *at = choices_of(w)->running.next;
         at != &choices_of(w)->running; at = at->next) {
        const struct choice *choice = LIST_OF(at, struct choice, grant.running);

        if (!choice_is_kept(choice) || choice->removal.state != REMOVAL_NONE) {
            return true;
        }
    }
    return false;
}

void continuation_crowded(struct requests *r, struct choice *choice)
{
    struct worker *w = choice->entry.keeper;
    struct claim claim = claim_at(r->schedule, &choice->entry, w);
    struct choice *kept = choice->request->prompt.continues;

    if (place_takes(w) && !place_has_room(w, &claim.need) && !has_running(w) &&
        w->grants.last == w->ledger.grant) {
        log_continuation(kept, "continuation-crowded");
        continuation_drop(choice->request);
        removal_release(r, kept);
        model_touch(r->fleet, choice->request->model);
    }
}

void continuation_drained(struct requests *r, struct worker *w)
{
    struct worker *place = worker_place(w);

    if (place == NULL) {
        return;
    }
    for (struct list *at = choices_of(place)->running.next;
         at != &choices_of(place)->running; at = at->next) {
        continuation_lost(r, LIST_OF(at, struct choice, grant.running));
    }
}
