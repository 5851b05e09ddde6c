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

    if (choice->kept) {
        return "kept";
    }
    return runs && choice->suspended ? "suspended"
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
    choice->entry.prompt = &request->prefix;
    /* Numbers order all choices by arrival; a requeued choice keeps its
     * number. */
    choice->entry.number = ++r->last_number;
    list_init(&choice->entry.queue);
    list_init(&choice->ready);
    list_init(&choice->running);
    list_init(&choice->parts);
    list_init(&choice->removals);
    list_append(&r->all_choices, &choice->all);
}

/* Frees what is needed only while the choice owes its client output. */
static void release_output(struct choice *choice)
{
    free(choice->detok);
    free(choice->tokens);
    stops_free(&choice->stops);
    logprob_columns_free(&choice->logprobs);
    choice->detok = NULL;
    choice->tokens = NULL;
    choice->tokens_size = 0;
}

void choice_fini(struct requests *r, struct choice *choice)
{
    assert(choice->worker == NULL);
    event_clear(r->base, &choice->lease);
    free(choice->entry.record);
    list_remove(&choice->ready);
    list_remove(&choice->all);
    release_output(choice);
}

void choice_settle(struct requests *r, struct choice *choice)
{
    struct request *request = choice->request;

    /* Without an open call no chunk can be sent, so nothing is owed. */
    if (choice->state == CHOICE_ENDED && !choice->kept &&
        (choice->last_sent || !pending_is_open(&request->call))) {
        release_output(choice);
        request_settle(r, request);
    }
}

void choice_reserve(struct choice *choice, uint32_t n)
{
    uint32_t size =
        choice->tokens_size == 0 ? TOKENS_START : choice->tokens_size;
    uint32_t *tokens;

    if (n <= choice->tokens_size) {
        return;
    }
    while (size < n) {
        size *= 2;
    }
    tokens = realloc(choice->tokens, size * sizeof *tokens);
    assert(tokens != NULL);
    choice->tokens = tokens;
    choice->tokens_size = size;
}

bool choice_may_have_run(const struct choice *choice)
{
    /* Bytes that are still in our outbox cannot have crashed the worker. */
    return choice->n_ids_sent == choice->n_ids &&
           peer_taken(choice->worker->peer->peer, LANE_SUBMIT) >=
               choice->n_before;
}

struct choice *choice_of_grant(const struct worker *w, uint64_t grant)
{
    struct table_node *n = table_find(&w->grants, grant);

    return n == NULL ? NULL : LIST_OF(n, struct choice, by_grant);
}

uint32_t choice_n_cached(const struct choice *choice)
{
    uint32_t n_prompt = choice->request->n_prompt;

    return choice->n_reused < n_prompt ? choice->n_reused : n_prompt;
}

/* Returns the blocks that a sequence needs for what it has, if it grows. */
static uint64_t grown_blocks(const struct choice *choice)
{
    const struct claim *c = &choice->entry.claim;
    uint64_t n = (uint64_t)choice->request->n_prompt + choice->n_generated;

    return (n + c->block_tokens - 1) / c->block_tokens;
}

static bool is_growing(const struct choice *choice)
{
    return choice->entry.claim.grows && !choice->released;
}

uint32_t choice_n_blocks(const struct choice *choice)
{
    const struct claim *c = &choice->entry.claim;
    uint64_t grown;

    if (!is_growing(choice)) {
        return (uint32_t)choice->held.of[BLOCKS];
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
        return (uint32_t)choice->held.of[WINDOWS];
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
