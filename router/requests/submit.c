#include "router/requests/submit.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/minmax.h"
#include "common/base/plant.h"
#include "common/sampling/sampling_message.h"
#include "common/wire/ids_hash.h"
#include "common/wire/request_id.h"
#include "proto/worker.pb-c.h"
#include "router/fleet/fleet.h"
#include "router/placement/adoption.h"
#include "router/replicas/place.h"
#include "router/requests/choice_life.h"
#include "router/requests/choice_moves.h"
#include "router/requests/continuation.h"
#include "router/schedule/bypass.h"
#include "router/schedule/claims.h"
#include "router/schedule/policy.h"

/* Room for SUBMIT_IDS_MAX ids and the other fields of a part. */
#define PART_BYTES (60u << 10)

static uint32_t next_n_ids(const struct choice *choice)
{
    uint32_t left = choice->submit.n_ids - choice->submit.n_ids_sent;

    return left < SUBMIT_IDS_MAX ? left : SUBMIT_IDS_MAX;
}

/* Returns the next ids of prompt ++ generated: in place, or in the scratch of r
 * if they span both arrays. */
static uint32_t *next_ids(struct requests *r, const struct choice *choice)
{
    const struct request *request = choice->request;
    uint32_t at = choice->submit.n_ids_sent, n = next_n_ids(choice), n_prompt;

    if (at >= request->prompt.n) {
        return choice->out.tokens + (at - request->prompt.n);
    }
    if (at + n <= request->prompt.n) {
        return request->prompt.ids + at;
    }
    n_prompt = request->prompt.n - at;
    memcpy(r->submit_ids, request->prompt.ids + at,
           n_prompt * sizeof *r->submit_ids);
    memcpy(r->submit_ids + n_prompt, choice->out.tokens,
           (n - n_prompt) * sizeof *r->submit_ids);
    return r->submit_ids;
}

/* Fills s for an adoption: no ids but their hash, so that the worker can check
 * that it holds the same sequence. */
static void fill_adopt(const struct choice *choice,
                       Sluice__V1__SubmitRequest *s)
{
    const struct request *request = choice->request;
    uint64_t h =
        ids_hash(IDS_HASH_START, request->prompt.ids, request->prompt.n);

    s->has_adopt = s->adopt = true;
    s->has_ids_hash = true;
    s->ids_hash = ids_hash(h, choice->out.tokens, choice->out.n_generated);
    s->n_tokens = s->n_generated = 0;
}

/* The grants of the stages past the first, [n_stages - 1] each. */
struct stage_grants {
    Sluice__V1__StageGrants m;
    uint64_t grant[STAGES_MAX];
    uint32_t blocks[STAGES_MAX], slots[STAGES_MAX], checkpoints[STAGES_MAX];
    uint32_t windows[STAGES_MAX];
};

static void fill_stages(struct worker *w, const struct need *need,
                        struct stage_grants *x)
{
    uint32_t n = worker_n_stages(w) - 1;

    sluice__v1__stage_grants__init(&x->m);
    for (uint32_t i = 0; i < n; i++) {
        const struct worker *s = worker_stage(w, i + 1);
        struct need share = place_share(s, need);

        x->grant[i] = s->grants.last + 1;
        x->blocks[i] = (uint32_t)share.of[BLOCKS];
        x->slots[i] = (uint32_t)share.of[SLOTS];
        x->checkpoints[i] = 0;
        x->windows[i] = (uint32_t)share.of[WINDOWS];
    }
    x->m.n_grant = x->m.n_blocks = x->m.n_slots = x->m.n_checkpoints = n;
    x->m.grant = x->grant;
    x->m.blocks = x->blocks;
    x->m.slots = x->slots;
    x->m.checkpoints = x->checkpoints;
    x->m.n_windows = need->window_blocks > 0 ? n : 0;
    x->m.windows = x->windows;
}

/* Returns the time that is left of the call, at least 1 ms, rounded up: the
 * worker must not be earlier than the router.  0: it has no deadline. */
static uint32_t left_ms(const struct request *request, int64_t now_us)
{
    int64_t us = request->deadline_us - now_us;

    if (request->deadline_us == NODE_IDLE) {
        return 0;
    }
    return us <= 0 ? 1 : (uint32_t)min_i64(us / 1000 + 1, UINT32_MAX);
}

/* Fills in what the choices of a request have in common. */
static void fill_request(const struct request *request, int64_t now_us,
                         Sluice__V1__SubmitRequest *s)
{
    s->n_prompt = request->prompt.n;
    s->max_tokens = request->max_tokens;
    s->has_keep_ms = request->keep_ms > 0;
    s->keep_ms = request->keep_ms;
    s->has_tenant = request->scope.n_tenant > 0;
    s->tenant = request_tenant(request);
    s->has_cache_salt = request->scope.n_salt > 0;
    s->cache_salt = (ProtobufCBinaryData){
        request->scope.n_salt, (uint8_t *)(uintptr_t)request->scope.salt};
    s->has_cache = request->scope.uncached;
    s->cache = !request->scope.uncached;
    s->has_drafts = request->has_drafts;
    s->drafts = request->drafts;
    s->has_urgent = s->urgent = request->deadline_us != NODE_IDLE;
    s->has_deadline_ms = s->urgent;
    s->deadline_ms = left_ms(request, now_us);
    s->n_spans = PLANT(SPANS_FORGOTTEN) ? 0 : request->prompt.n_spans;
    s->spans = request->prompt.spans;
}

static void fill_ids(struct requests *r, const struct choice *choice,
                     Sluice__V1__SubmitRequest *s)
{
    s->n_generated = choice->out.n_generated;
    if (PLANT(MOVED_AS_PROMPT)) {
        s->n_prompt += s->n_generated;
        s->n_generated = 0;
    }
    s->tokens = next_ids(r, choice);
    s->n_tokens = next_n_ids(choice);
    s->has_have_index = true;
    s->have_index = choice->out.n_generated;
}

/* The parts of a Submit that it points to. */
struct submit {
    Sluice__V1__SubmitRequest m;
    Sluice__V1__SequenceRef ref, kept;
    Sluice__V1__Need need;
    Sluice__V1__Sampling sampling;
    struct stage_grants stages;
};

static void fill_submit(const struct requests *r, struct submit *s,
                        struct worker *w, struct choice *choice,
                        const struct need *need)
{
    struct need own = place_share(w, need);

    sluice__v1__submit_request__init(&s->m);
    sluice__v1__need__init(&s->need);
    choice_ref(choice, &s->ref);
    s->need.blocks = (uint32_t)own.of[BLOCKS];
    s->need.slots = (uint32_t)own.of[SLOTS];
    s->need.windows = (uint32_t)own.of[WINDOWS];
    s->need.has_windows = s->need.windows > 0;
    s->m.sequence = &s->ref;
    s->m.grant = w->grants.last + 1;
    s->m.need = &s->need;
    sampling_write(&choice->request->sampling, &s->sampling);
    s->m.sampling = &s->sampling;
    fill_request(choice->request, r->base->now_us, &s->m);
    if (member_of(w)->replica != NULL) {
        fill_stages(w, need, &s->stages);
        s->m.stages = &s->stages.m;
    }
}

static enum status send_submit(struct requests *r, struct worker *w,
                               struct choice *choice, const struct need *need,
                               bool adopt)
{
    struct submit s;

    fill_submit(r, &s, w, choice, need);
    fill_ids(r, choice, &s.m);
    s.m.has_grows = s.m.grows = choice->entry.claim.grows && !adopt;
    if (adopt) {
        fill_adopt(choice, &s.m);
    } else if (choice->entry.keeper == w) {
        choice_ref(choice->request->prompt.continues, &s.kept);
        s.m.continue_from = &s.kept;
    }
    return peer_call(w->peer->peer, METHOD_WORKER_SUBMIT, &s.m.base, 0,
                     s.m.grant, NULL);
}

enum status submit_send(struct requests *r, struct worker *w,
                        struct choice *choice)
{
    struct claim claim = claim_at(r->schedule, &choice->entry, w);
    enum status st;

    choice->submit.n_ids = choice->request->prompt.n + choice->out.n_generated;
    choice->submit.n_ids_sent = 0;
    FP(ROUTER_SUBMIT);
    continuation_granted(choice->request, w);
    choice->entry.claim = claim;
    st = send_submit(r, w, choice, &claim.need, false);
    if (st != ST_OK) {
        return st;
    }
    choice->submit.n_ids_sent = next_n_ids(choice);
    choice->submit.n_before = peer_queued(w->peer->peer, LANE_SUBMIT);
    choice_granted(r, choice, w, &claim.need);
    choice_submit_move(choice, choice->entry.keeper == w ? SUBMIT_CONTINUES
                                                         : SUBMIT_IDS);
    r->schedule->policy->charge(r->schedule, &choice->entry, w);
    bypass_granted(r->schedule, &choice->entry, w);
    if (choice->submit.n_ids_sent < choice->submit.n_ids) {
        list_append(&choices_of(w)->unsent, &choice->submit.parts);
    }
    FP(ROUTER_SUBMIT_SENT);
    return ST_OK;
}

enum status submit_adopt(struct requests *r, struct worker *w,
                         struct choice *choice, bool grows)
{
    struct claim claim = claim_of_live(&choice->entry, w, grows);
    struct need none = {.window_blocks = 0};
    enum status st;

    /* As if all ids had been sent: the sequence is at the worker. */
    choice->submit.n_ids = choice->submit.n_ids_sent = 0;
    choice->entry.claim = claim;
    st = send_submit(r, w, choice, &none, true);
    if (st == ST_OK) {
        choice->submit.n_before = peer_queued(w->peer->peer, LANE_SUBMIT);
        trial_found(r->placement, w, &choice->entry.trial);
        choice_granted(r, choice, w,
                       PLANT(ADOPT_CHARGED) ? &claim.need : &none);
        r->schedule->policy->charge(r->schedule, &choice->entry, w);
        /* It began in another session, and has no tokens to compute before
         * those of others. */
        r->schedule->policy->started(&choice->entry);
        choice_submit_move(choice, SUBMIT_ADOPTS);
    }
    return st;
}

/* Logs the outcome of an adoption. */
static void log_adoption(const struct choice *choice, const char *event)
{
    char id[REQUEST_ID_TEXT];

    request_id_format(choice->request->id, id);
    log_debug(event, "request=%s choice=%" PRIu32 " worker=%s tokens=%" PRIu32,
              id, choice->index, choice->grant.worker_name,
              choice->out.n_generated);
}

static bool send_part(struct requests *r, struct worker *w,
                      struct choice *choice)
{
    Sluice__V1__SubmitPartMessage m = SLUICE__V1__SUBMIT_PART_MESSAGE__INIT;

    m.grant = choice->grant.number;
    m.offset = choice->submit.n_ids_sent;
    m.tokens = next_ids(r, choice);
    m.n_tokens = next_n_ids(choice);
    if (peer_room(w->peer->peer, LANE_SUBMIT) < PART_BYTES ||
        peer_oneway(w->peer->peer, METHOD_WORKER_SUBMIT_PART, &m.base) !=
            ST_OK) {
        return false;
    }
    choice->submit.n_ids_sent += (uint32_t)m.n_tokens;
    choice->submit.n_before = peer_queued(w->peer->peer, LANE_SUBMIT);
    return true;
}

void submit_pump(struct requests *r, struct worker *w)
{
    while (!list_empty(&choices_of(w)->unsent)) {
        struct choice *choice =
            LIST_OF(choices_of(w)->unsent.next, struct choice, submit.parts);

        if (!send_part(r, w, choice)) {
            return;
        }
        if (choice->submit.n_ids_sent == choice->submit.n_ids) {
            list_remove(&choice->submit.parts);
        }
    }
}

/* Requeues choice, which w refused for lack of room.  The worker is entitled to
 * do so even if the account here shows room.  It gets no other grant until a
 * ledger includes this one and so shows its view.  The other stages of a
 * replica settle the grant's number as well, by a void Open, and return its
 * charge with their next ledgers. */
static void requeue_refused(struct requests *r, struct worker *w,
                            struct choice *choice, const struct error *e)
{
    w->grants.closed_until = choice->grant.number;
    /* A worker that always refuses must not hold the queue for ever. */
    if (++choice->figures.n_refusals > REFUSALS_MAX) {
        choice_ungrant(r, choice);
        choice_fail(r, choice, e, model_retry_ms(choice->request->model));
    } else {
        choice_requeue(r, choice);
    }
}

static void handle_refusal(struct requests *r, struct worker *w,
                           struct choice *choice, enum status status,
                           const struct error *e)
{
    struct error why = *e;

    if (choice->state == CHOICE_ENDING) {
        return; /* its receipt follows */
    }
    /* The drain wanted it away from there in any case. */
    if (choice_is_moving(choice)) {
        choice_moved(r, choice);
        return;
    }
    /* The worker dropped the orphan meanwhile; nothing was charged. */
    if (choice->submit.state == SUBMIT_ADOPTS && status == ST_NOT_FOUND) {
        r->base->metrics.adoptions_lost++;
        log_adoption(choice, "adoption-lost");
        choice_requeue(r, choice);
        return;
    }
    /* The worker has lost what it kept: the ids are computed anywhere. */
    if (choice->submit.state == SUBMIT_CONTINUES &&
        (status == ST_NOT_FOUND || status == ST_INVALID_ARGUMENT)) {
        continuation_refused(r, choice, status);
        choice_requeue(r, choice);
        return;
    }
    error_wrap(&why, "worker %s refused the sequence", w->peer->name);
    /* CANCELLED comes from a tombstone of an earlier sequence of this id, which
     * is used up now.  This sequence was not cancelled, or its state would be
     * ENDING. */
    if (status == ST_RESOURCE_EXHAUSTED || status == ST_UNAVAILABLE ||
        status == ST_CANCELLED) {
        requeue_refused(r, w, choice, &why);
    } else {
        choice_ungrant(r, choice);
        choice_fail(r, choice, &why, 0);
    }
}

/* Ends the Submit of choice, which its worker has accepted. */
static void take_accepted(struct requests *r, struct choice *choice)
{
    enum choice_submit_state was = choice->submit.state;

    choice_submit_move(choice, SUBMIT_NONE);
    if (was == SUBMIT_CONTINUES) {
        continuation_accepted(r, choice);
    } else if (was == SUBMIT_ADOPTS) {
        choice->figures.n_idle_moves = 0; /* its worker was not lost */
        r->base->metrics.adopted++;
        log_adoption(choice, "adopted");
    }
}

void submit_answered(struct requests *r, struct worker *w, uint64_t grant,
                     enum status status, const struct error *e)
{
    struct choice *choice = choice_of_grant(w, grant);

    if (choice == NULL || choice->state == CHOICE_ENDED) {
        return; /* a receipt or a row arrived first */
    }
    if (status == ST_OK) {
        take_accepted(r, choice);
        if (choice->state == CHOICE_SUBMITTED) {
            choice_move(choice, CHOICE_PREFILL);
        }
    } else if (choice->state == CHOICE_SUBMITTED ||
               choice->state == CHOICE_ENDING) {
        handle_refusal(r, w, choice, status, e);
    } else {
        peers_end(
            r->fleet, w->peer,
            "the worker refused a sequence after it had sent tokens of it");
        r->base->metrics.protocol_violations++;
    }
}

/* Returns the first choice that is wanted at w; NULL: none.  An orphan leaves
 * the wanted list before its choice ends, so the choice is there. */
static struct choice *wanted_choice(const struct requests *r,
                                    const struct worker *w)
{
    uint32_t choice = 0;
    const uint8_t *id = adoption_next(w, &choice);
    struct request *request;

    if (id == NULL) {
        return NULL;
    }
    request = request_find(r, id, REQUEST_ID_BYTES);
    assert(request != NULL && choice < request->n_choices);
    return &request->choices[choice];
}

static void adopt_wanted(struct requests *r, struct worker *w)
{
    struct choice *choice;

    while ((choice = wanted_choice(r, w)) != NULL && place_takes(w)) {
        bool sent, grows = adoption_begin(w);

        sent = submit_adopt(r, w, choice, grows) == ST_OK;
        adoption_end(r->placement, w, sent);
        if (!sent) {
            return;
        }
    }
}

void submit_adoptions(struct requests *r, struct model *m)
{
    for (uint32_t i = 0; i < r->fleet->n_workers; i++) {
        if (r->fleet->workers[i]->model == m) {
            adopt_wanted(r, r->fleet->workers[i]);
        }
    }
}
