#include "tests/sim/cells.h"

#include <string.h>

#include "proto/common.pb-c.h"
#include "tests/sim/sim.h"

const char *const cell_state_names[CELL_STATES] = {
    "encoding", "waiting",   "submitted", "queued",  "prefill",
    "decode",   "suspended", "kept",      "finished"};
const char *const cell_event_names[CELL_EVENTS] = {
    "cancel", "remove", "disconnect", "worker-lost", "router-lost"};

const char *const deed_names[DEEDS] = {
    [DEED_STOP_BORDER] = "stop-border",
    [DEED_STOP_ACROSS] = "stop-across",
    [DEED_STOP_FIRST] = "stop-first",
    [DEED_STOP_AT_LENGTH] = "stop-at-length",
    [DEED_STOP_BEFORE_END] = "stop-before-end",
    [DEED_STOP_BROKEN] = "stop-broken",
    [DEED_STOP_MOVED] = "stop-moved",
    [DEED_STOP_LOST] = "stop-lost",
    [DEED_CHAINED_PENALTIES] = "chained-penalties",
    [DEED_MOVED_PENALTIES] = "moved-penalties",
    [DEED_MOVED_LOGPROBS] = "moved-logprobs",
    [DEED_MOVED_TEXT] = "moved-text",
    [DEED_FOUND_LOGPROBS] = "found-logprobs",
    [DEED_WINDOW_FULL] = "window-full",
    [DEED_STOP_TOKEN] = "stop-token",
    [DEED_STOP_TOKEN_NO_EOS] = "stop-token-no-eos",
    [DEED_CHOICES_APART] = "choices-apart",
    [DEED_CHOICE_CANCELLED] = "choice-cancelled",
    [DEED_ADOPTED_RUNNING] = "adopted-running",
    [DEED_ADOPTED_FINISHED] = "adopted-finished",
    [DEED_ADOPTED_LOGPROBS] = "adopted-logprobs",
    [DEED_ADOPTED_PENALTIES] = "adopted-penalties",
    [DEED_ADOPTION_LOST] = "adoption-lost",
    [DEED_DISOWNED] = "disowned",
    [DEED_ORPHAN_EXPIRED] = "orphan-expired",
    [DEED_RESUMED_PREFILL] = "resumed-prefill",
    [DEED_RESUMED_DECODE] = "resumed-decode",
    [DEED_RESUMED_ENDED] = "resumed-ended",
    [DEED_RESUMED_STOP] = "resumed-stop",
    [DEED_RESUMED_LOGPROBS] = "resumed-logprobs",
    [DEED_RESUMED_TWICE] = "resumed-twice",
    [DEED_LONG_STEP] = "long-step",
    [DEED_SLOW] = "slow",
    [DEED_STOOD] = "stood",
    [DEED_FENCED] = "fenced",
    [DEED_ENGINE_DEAD] = "engine-dead",
    [DEED_HALF_OPEN] = "half-open",
    [DEED_POISONED] = "poisoned",
    [DEED_CRASHED] = "crashed",
    [DEED_ON_TRIAL] = "on-trial",
    [DEED_INDICTED] = "indicted",
    [DEED_UNLUCKY] = "unlucky",
    [DEED_PROBATION] = "probation",
    [DEED_DRAIN_ENDED] = "drain-ended",
    [DEED_DRAIN_MOVED] = "drain-moved",
    [DEED_UNDRAINED] = "undrained",
    [DEED_LEFT] = "left",
    [DEED_SPARE_LOSS] = "spare-loss",
    [DEED_ABSENT_SERVED] = "absent-served",
    [DEED_NAMESAKE] = "namesake",
    [DEED_STRANGER] = "stranger",
    [DEED_EVICTED] = "evicted",
    [DEED_EVICTED_STRANGER] = "evicted-stranger",
    [DEED_THROTTLED] = "throttled",
    [DEED_FORGED] = "forged",
    [DEED_HELD] = "held",
    [DEED_STALLED] = "stalled-sequence",
    [DEED_PLAN_REFUSED] = "plan-refused",
    [DEED_SAVED] = "saved",
    [DEED_FAILED_SAVES] = "failed-saves",
    [DEED_MOVED_BLOCK] = "moved-block",
    [DEED_SWAP_OUT] = "swap-out",
    [DEED_SWAP_IN] = "swap-in",
    [DEED_HIT] = "hit",
    [DEED_HIT_PARTIAL] = "hit-partial",
    [DEED_LATE_SIBLING] = "late-sibling",
    [DEED_WINDOW_MOVED] = "window-moved",
    [DEED_WINDOW_OUT] = "window-out",
    [DEED_TWIN] = "twin",
    [DEED_TWIN_CANCELLED] = "twin-cancelled",
    [DEED_CONTINUED] = "continued",
    [DEED_CONTINUED_MOVED] = "continued-moved",
    [DEED_RANGE] = "range",
    [DEED_RANGE_BACK] = "range-back",
    [DEED_RANGE_NOTHING] = "range-nothing",
    [DEED_SAVED_BRANCH] = "saved-branch",
    [DEED_AT_QUOTA] = "at-quota",
    [DEED_INDEX_GAP] = "index-gap",
    [DEED_INDEX_SNAPSHOT] = "index-snapshot",
    [DEED_EVICTED_BLOCK] = "evicted-block",
    [DEED_EVICTED_CHECKPOINT] = "evicted-checkpoint",
    [DEED_CACHED_OUT] = "cached-out",
    [DEED_CACHED_BACK] = "cached-back",
    [DEED_CACHED_DROPPED] = "cached-dropped",
    [DEED_GREW] = "grew",
    [DEED_SUSPENDED] = "suspended",
    [DEED_RESUMED_RECOMPUTE] = "resumed-recompute",
    [DEED_DRAFT_ACCEPTED] = "draft-accepted",
    [DEED_DRAFT_REFUSED] = "draft-refused",
    [DEED_DRAFT_NGRAM] = "draft-ngram",
    [DEED_DRAFT_STOP] = "draft-stop",
    [DEED_DRAFT_LENGTH] = "draft-length",
    [DEED_DRAFT_LOGPROBS] = "draft-logprobs",
    [DEED_DRAFT_PENALTIES] = "draft-penalties",
    [DEED_DRAFT_DAMAGED] = "draft-damaged",
    [DEED_DRAFT_FAILED] = "draft-failed",
    [DEED_DRAFT_ASKED] = "draft-asked",
    [DEED_ASSEMBLED] = "assembled",
    [DEED_ASSEMBLED_AGAIN] = "assembled-again",
    [DEED_EDGE_REFUSED] = "edge-refused",
    [DEED_FORMING_STRUCK] = "forming-struck",
    [DEED_RING_FULL] = "ring-full",
    [DEED_OPEN_VOID] = "open-void",
    [DEED_OPEN_IDS] = "open-ids",
    [DEED_STAGE_FAILED] = "stage-failed",
    [DEED_ROW_DAMAGED] = "row-damaged",
    [DEED_STEP_DAMAGED] = "step-damaged",
    [DEED_FAILED_ALONE] = "failed-alone",
    [DEED_AGAIN] = "again",
    [DEED_AGAIN_STAGED] = "again-staged",
    [DEED_AGAIN_ENDED] = "again-ended",
    [DEED_CUT_OFF] = "cut-off",
    [DEED_STAGE_RECEIPT] = "stage-receipt",
    [DEED_RESTORED_STAGED] = "restored-staged",
    [DEED_RESTORED_LAST] = "restored-last",
    [DEED_DRAFT_STAGED] = "draft-staged",
    [DEED_GARBAGE] = "garbage",
    [DEED_GIVEN] = "given",
    [DEED_GAP_FILLED] = "gap-filled",
    [DEED_ASSIGN_REFUSED] = "assign-refused",
    [DEED_OFFER_KILLED] = "offer-killed",
    [DEED_LOAD_KILLED] = "load-killed",
    [DEED_LOAD_FAILED] = "load-failed",
    [DEED_LOAD_LATE] = "load-late",
    [DEED_WEB_STREAM] = "stream",
    [DEED_WEB_WHOLE] = "whole",
    [DEED_WEB_CHAT] = "chat",
    [DEED_WEB_PROMPTS] = "prompts",
    [DEED_WEB_ECHO] = "echo",
    [DEED_WEB_PADDED] = "padded",
    [DEED_WEB_REFUSED] = "refused",
    [DEED_WEB_FAILED] = "stream-failed",
    [DEED_WEB_PIPELINED] = "pipelined",
    [DEED_WEB_MALFORMED] = "malformed",
    [DEED_WEB_HALF] = "half",
    [DEED_WEB_LATE] = "late",
    [DEED_WEB_STALLED] = "stalled",
    [DEED_WEB_KILLED] = "gateway-killed",
    [DEED_WEB_CUT] = "cut",
    [DEED_WEB_RESUMED] = "resumed",
    [DEED_WEB_LEFT_SENDING] = "left-sending",
    [DEED_WEB_LEFT_ENCODING] = "left-encoding",
    [DEED_WEB_LEFT_WAITING] = "left-waiting",
    [DEED_WEB_LEFT_PREFILL] = "left-prefill",
    [DEED_WEB_LEFT_DECODE] = "left-decode",
    [DEED_WEB_LEFT_LAST] = "left-last",
    [DEED_KEY_NAME] = "name",
    [DEED_KEY_LINEAGE] = "lineage",
    [DEED_KEY_ROLE] = "role",
    [DEED_KEY_NONE] = "none",
    [DEED_KEY_STAGE] = "stage",
    [DEED_KEY_STAGE_UP] = "stage-up",
    [DEED_KEY_REMOVED] = "removed",
    [DEED_KEY_REMOVED_CLIENT] = "removed-client",
    [DEED_KEY_REFUSED] = "refused",
    [DEED_KEY_RESTORED] = "restored",
    [DEED_KEY_ROTATED] = "rotated",
    [DEED_KEY_NEXT] = "next-rotated"};

enum cell_state cells_at_worker(const struct sim *s, uint32_t node,
                                const struct sim_choice *c)
{
    static const enum cell_state of[] = {
        [SLUICE__V1__SEQUENCE_STATE__SEQUENCE_UNKNOWN] = CELL_NONE,
        [SLUICE__V1__SEQUENCE_STATE__SEQUENCE_QUEUED] = CELL_QUEUED,
        [SLUICE__V1__SEQUENCE_STATE__SEQUENCE_PREFILL] = CELL_PREFILL,
        [SLUICE__V1__SEQUENCE_STATE__SEQUENCE_DECODE] = CELL_DECODE,
        [SLUICE__V1__SEQUENCE_STATE__SEQUENCE_KEPT] = CELL_KEPT,
        [SLUICE__V1__SEQUENCE_STATE__SEQUENCE_FINISHED] = CELL_FINISHED,
        [SLUICE__V1__SEQUENCE_STATE__SEQUENCE_SUSPENDED] = CELL_SUSPENDED};
    const void *core = node_worker(s, node);
    bool leads = options_shard(&s->options, node - SIM_FIRST_WORKER).begin == 0;

    return core && leads
               ? of[worker_sequence_state(core, c->request->id, c->number)]
               : CELL_NONE;
}

/* Returns the earliest state of a choice on any worker, CELL_NONE if on none.
 */
static enum cell_state at_workers(const struct sim *s,
                                  const struct sim_choice *c)
{
    enum cell_state best = CELL_NONE;

    for (uint32_t i = 0; i < s->options.n_workers; i++) {
        enum cell_state state = cells_at_worker(s, SIM_FIRST_WORKER + i, c);

        best = state < best ? state : best;
    }
    return best;
}

enum choice_state cells_at_router(const struct sim *s,
                                  const struct sim_request *request,
                                  uint32_t choice)
{
    const void *router = s->nodes[SIM_ROUTER].core;

    return router ? router_choice_state(router, request->id, choice)
                  : CHOICE_ENDED;
}

enum cell_state cells_state(const struct sim *s, uint32_t number,
                            uint32_t choice)
{
    const struct sim_request *request = &s->requests[number];
    enum choice_state at = cells_at_router(s, request, choice);
    enum cell_state there;

    if (!request->arrived) {
        return CELL_NONE;
    }
    if (at == CHOICE_ENCODING) {
        return CELL_ENCODING;
    }
    if (at == CHOICE_WAITING) {
        return CELL_WAITING;
    }
    there = at_workers(s, &request->choices[choice]);
    if (there != CELL_NONE) {
        return there;
    }
    return at == CHOICE_ENDED ? CELL_FINISHED : CELL_SUBMITTED;
}

static bool runs(enum cell_state state)
{
    return state == CELL_PREFILL || state == CELL_DECODE;
}

/* Counts a choice that ends while another one of its request runs. */
static void one_of_many(struct sim *s, uint32_t number, uint32_t choice)
{
    const struct sim_request *request = &s->requests[number];

    for (uint32_t i = 0; i < request->n_choices; i++) {
        if (i != choice && runs(cells_state(s, number, choice)) &&
            runs(cells_state(s, number, i))) {
            s->counts.cells.deeds[DEED_CHOICE_CANCELLED]++;
        }
        s->counts.cells.deeds[DEED_TWIN_CANCELLED] +=
            i != choice && cells_state(s, number, choice) == CELL_PREFILL &&
            cells_state(s, number, i) == CELL_QUEUED;
    }
}

void cells_hit(struct sim *s, uint32_t number, uint32_t choice,
               enum cell_event what)
{
    uint32_t n = s->requests[number].n_choices;

    if (choice != CHOICE_ALL && choice < n && n > 1) {
        one_of_many(s, number, choice);
    }
    for (uint32_t i = 0; i < n; i++) {
        enum cell_state state = cells_state(s, number, i);

        if (state != CELL_NONE && (choice == CHOICE_ALL || choice == i)) {
            s->counts.cells.hits[state][what]++;
        }
    }
}

void cells_disconnect(struct sim *s, uint32_t node)
{
    if (!node_is_client(node)) {
        return;
    }
    for (uint32_t i = 0; i < s->n_requests; i++) {
        struct sim_request *request = &s->requests[i];

        if (request->client == node && request->arrived && !request->left) {
            cells_hit(s, i, CHOICE_ALL, CELL_DISCONNECT);
            request->left = true;
        }
    }
}

/* Counts a choice on a dying worker, or in the queue of its model. */
static void worker_killed(struct sim *s, uint32_t node, uint32_t i,
                          uint32_t choice)
{
    const struct sim_request *request = &s->requests[i];
    uint32_t w = node - SIM_FIRST_WORKER;
    enum cell_state here = cells_at_worker(s, node, &request->choices[choice]);
    enum cell_state all;

    if (here != CELL_NONE) {
        s->counts.cells.hits[here][CELL_WORKER_LOST]++;
        s->counts.cells.deeds[DEED_STOP_LOST] +=
            here < CELL_KEPT && request->choices[choice].stopped;
        return;
    }
    if (s->options.workers[w].model != request->model) {
        return;
    }
    all = cells_state(s, i, choice);
    if (all <= CELL_SUBMITTED) {
        s->counts.cells.hits[all][CELL_WORKER_LOST]++;
    }
}

static void router_killed(struct sim *s, uint32_t i)
{
    struct sim_request *request = &s->requests[i];

    if (!request->router_lost) {
        cells_hit(s, i, CHOICE_ALL, CELL_ROUTER_LOST);
        request->router_lost = request->arrived;
    }
}

void cells_killed(struct sim *s, uint32_t node)
{
    replicas_killed(s, node);
    s->counts.cells.deeds[DEED_OFFER_KILLED] +=
        node_is_worker(node) && s->offers[node - SIM_FIRST_WORKER].waits;
    for (uint32_t i = 0; i < s->n_requests; i++) {
        const struct sim_request *request = &s->requests[i];

        if (node == SIM_ROUTER) {
            router_killed(s, i);
        }
        for (uint32_t k = 0; k < request->n_choices && node_is_worker(node);
             k++) {
            worker_killed(s, node, i, k);
        }
    }
}

bool cell_exists(enum cell_state state, enum cell_event event)
{
    return state < CELL_STATES && event < CELL_EVENTS &&
           state != CELL_SUSPENDED;
}
