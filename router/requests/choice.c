#include "router/requests/choice.h"

#include <assert.h>
#include <stdlib.h>

#include "common/base/state_machine.h"
#include "common/wire/request_id.h"
#include "router/requests/logprob_columns.h"
#include "router/requests/request.h"
#include "router/requests/stops.h"

#define TOKENS_START 64

/* Transitions between the states; choice_state.h has the picture. */
static const struct sm_row choice_rows[CHOICE_STATES] = {
    [CHOICE_ENCODING] = {"encoding",
                         SM_TO(CHOICE_WAITING) | SM_TO(CHOICE_ENDED)},
    [CHOICE_WAITING] = {"waiting",
                        SM_TO(CHOICE_SUBMITTED) | SM_TO(CHOICE_ENDED)},
    [CHOICE_SUBMITTED] = {"submitted",
                          SM_TO(CHOICE_PREFILL) | SM_TO(CHOICE_WAITING) |
                              SM_TO(CHOICE_ENDING) | SM_TO(CHOICE_ENDED)},
    [CHOICE_PREFILL] = {"prefill",
                        SM_TO(CHOICE_DECODE) | SM_TO(CHOICE_WAITING) |
                            SM_TO(CHOICE_ENDING) | SM_TO(CHOICE_ENDED)},
    [CHOICE_DECODE] = {"decode", SM_TO(CHOICE_WAITING) | SM_TO(CHOICE_ENDING) |
                                     SM_TO(CHOICE_ENDED)},
    [CHOICE_ENDING] = {"ending", SM_TO(CHOICE_ENDED)},
    [CHOICE_ENDED] = {"ended", 0},
};

const char *choice_state_name(enum choice_state s)
{
    return choice_rows[s].name;
}

const char *choice_state_word(const struct choice *choice)
{
    bool runs =
        choice->state == CHOICE_PREFILL || choice->state == CHOICE_DECODE;

    if (choice_is_kept(choice)) {
        return "kept";
    }
    if (choice->kept.state == LEASE_LAPSED) {
        return "lapsed";
    }
    return runs && choice->grant.state == GRANT_SUSPENDED
               ? "suspended"
               : choice_state_name(choice->state);
}

void choice_move(struct choice *choice, enum choice_state to)
{
    char id[REQUEST_ID_TEXT];

    request_id_format(choice->request->id, id);
    sm_check(choice_rows, choice->state, to, "request", id);
    choice->state = to;
}

void choice_init(struct requests *r, struct choice *choice,
                 struct request *request, uint32_t c)
{
    choice->request = request;
    choice->index = c;
    choice->entry.model = request->model;
    choice->entry.trial.model = request->model;
    choice->entry.prompt = &request->prompt.prefix;
    /* Numbers order all choices by arrival; a requeued choice keeps its
     * number. */
    choice->entry.turn.number = ++r->last_number;
    list_init(&choice->entry.queue);
    list_init(&choice->entry.granted);
    list_init(&choice->out.ready);
    list_init(&choice->grant.running);
    list_init(&choice->submit.parts);
    list_init(&choice->removal.unsent);
    list_init(&choice->kept.leases);
    list_append(&r->all_choices, &choice->all);
}

/* Frees what is needed only while the choice owes its client output. */
static void release_output(struct choice *choice)
{
    free(choice->text.detok);
    free(choice->out.tokens);
    stops_free(&choice->text.stops);
    logprob_columns_free(&choice->out.logprobs);
    choice->text.detok = NULL;
    choice->out.tokens = NULL;
    choice->out.size = 0;
}

void choice_fini(struct requests *r, struct choice *choice)
{
    assert(choice->grant.worker == NULL);
    event_clear(r->base, &choice->kept.lease);
    list_remove(&choice->kept.leases);
    free(choice->entry.record);
    list_remove(&choice->out.ready);
    list_remove(&choice->all);
    release_output(choice);
}

void choice_settle(struct requests *r, struct choice *choice)
{
    struct request *request = choice->request;

    /* Without an open call no chunk can be sent, so nothing is owed. */
    if (choice->state == CHOICE_ENDED && !choice_is_kept(choice) &&
        !lease_is_on(choice) &&
        (choice->out.state == OUTPUT_CLOSED ||
         !pending_is_open(&request->call))) {
        release_output(choice);
        request_settle(r, request);
    }
}

/* Returns the tokens in whose array n have room. */
static uint32_t size_for(uint32_t n)
{
    uint32_t size = TOKENS_START;

    while (size < n) {
        size *= 2;
    }
    return size;
}

size_t choice_bytes(uint32_t n)
{
    return sizeof(struct choice) + size_for(n) * sizeof(uint32_t);
}

bool choice_reserve(struct choice *choice, uint32_t n)
{
    uint32_t size = size_for(n);
    uint32_t *tokens;

    if (n <= choice->out.size) {
        return true;
    }
    tokens = realloc(choice->out.tokens, size * sizeof *tokens);
    if (tokens == NULL) {
        return false;
    }
    choice->out.tokens = tokens;
    choice->out.size = size;
    return true;
}

bool choice_may_have_run(const struct choice *choice)
{
    /* Bytes that are still in our outbox cannot have crashed the worker. */
    return choice->submit.n_ids_sent == choice->submit.n_ids &&
           peer_taken(choice->grant.worker->peer->peer, LANE_SUBMIT) >=
               choice->submit.n_before;
}

struct choice *choice_of_grant(const struct worker *w, uint64_t grant)
{
    struct table_node *n = table_find(&choices_of(w)->by_grant, grant);

    return n == NULL ? NULL : LIST_OF(n, struct choice, grant.by_number);
}

uint32_t choice_n_ids(const struct choice *choice)
{
    return choice->kept.n_ids > 0
               ? choice->kept.n_ids
               : choice->request->prompt.n + choice->out.n_generated;
}

uint32_t choice_n_cached(const struct choice *choice)
{
    uint32_t n_prompt = choice->request->prompt.n;

    return choice->grant.n_reused < n_prompt ? choice->grant.n_reused
                                             : n_prompt;
}

/* Returns the blocks that a sequence needs for what it has, if it grows. */
static uint64_t grown_blocks(const struct choice *choice)
{
    const struct claim *c = &choice->entry.claim;
    uint64_t n = (uint64_t)choice->request->prompt.n + choice->out.n_generated;

    return (n + c->block_tokens - 1) / c->block_tokens;
}

static bool is_growing(const struct choice *choice)
{
    return choice->entry.claim.grows && choice->grant.state != GRANT_RELEASED;
}

uint32_t choice_n_blocks(const struct choice *choice)
{
    const struct claim *c = &choice->entry.claim;
    uint64_t grown;

    if (!is_growing(choice)) {
        return (uint32_t)choice->grant.held.of[BLOCKS];
    }
    /* A sequence grows at a worker with all layers only. */
    grown = c->need.of[BLOCKS] == 0 ? 0 : grown_blocks(choice);
    return (uint32_t)(grown > c->need.of[BLOCKS] ? grown : c->need.of[BLOCKS]);
}

uint32_t choice_n_windows(const struct choice *choice)
{
    const struct claim *c = &choice->entry.claim;
    uint64_t grown;

    if (!is_growing(choice)) {
        return (uint32_t)choice->grant.held.of[WINDOWS];
    }
    grown = grown_blocks(choice) * c->window_pages;
    grown = grown < c->most.of[WINDOWS] ? grown : c->most.of[WINDOWS];
    return (uint32_t)(grown > c->need.of[WINDOWS] ? grown
                                                  : c->need.of[WINDOWS]);
}

void choice_ref(struct choice *choice, Sluice__V1__SequenceRef *ref)
{
    sluice__v1__sequence_ref__init(ref);
    ref->request_id = (ProtobufCBinaryData){16, choice->request->id};
    ref->has_choice = true;
    ref->choice = choice->index;
}
