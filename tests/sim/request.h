/* request.h - A request of a simulated client, its results, and their checks.
 */
#ifndef SIM_REQUEST_H
#define SIM_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "client/lib/resumable.h"
#include "tests/sim/choice.h"
#include "tests/sim/oracle.h"

struct sim;

#define REQUEST_CHOICES    8
#define REQUEST_ENDS       4 /* stop tokens */
#define REQUEST_STOPS      4 /* stop strings */
#define REQUEST_STOP_BYTES 40

/* Deliberate errors of a request. */
enum defect {
    DEFECT_NONE,
    DEFECT_EMPTY,   /* no prompt */
    DEFECT_TOKEN,   /* an id past the vocabulary */
    DEFECT_CONTEXT, /* longer than the model's context */
    DEFECT_MODEL,   /* a model that no worker has */
    DEFECT_TOP_P,   /* a sampling value out of range */
    DEFECT_N,       /* no choices, or too many */
    DEFECT_STOP,    /* an empty stop string */
    DEFECTS
};

/* Damage of a request: to its logits, or to any step with its row. */
enum damage {
    DAMAGE_NONE,
    DAMAGE_ROW, /* they are not finite: the engine names the row */
    DAMAGE_STEP /* the step fails as a whole, with all of its rows */
};

struct sim_request {
    struct sim *sim;
    uint32_t number;
    uint8_t id[16];
    uint32_t client, client_life; /* node that sent it, and its life */
    struct resumable stream;
    struct asked *asked; /* borrowed by the call; owned */
    bool resumes;
    bool web;   /* a client of a gateway sends it, over HTTP */
    bool named; /* its gateway has drawn its id, which is known */
    bool lost_prefill, lost_decode; /* state of a choice at the last loss */

    uint32_t model;
    enum defect defect;
    bool as_text, seed_given;
    bool again, shared; /* id was used before; id is used again */
    uint32_t *prompt;   /* [n_prompt] owned */
    uint32_t n_prompt, max_tokens, keep_ms, deadline_ms;
    uint32_t tenant; /* 0: none */
    bool no_cache;   /* cache: false */
    bool guaranteed; /* never grows */
    bool has_drafts; /* names how many drafts it may have */
    uint32_t drafts;
    bool continues;                       /* goes on from the kept memory of */
    uint32_t from, from_choice, n_before; /* its ids, of the prompt */
    uint8_t *generated; /* [n_prompt] positions that were generated there; NULL:
                         * none; owned */
    bool cut; /* a range of its kept memory was removed, or all of it passed on
               */
    struct sampling sampling; /* lists below */
    uint32_t *bias_tokens;    /* [n_biases] owned */
    float *biases;            /* [n_biases] owned */
    uint32_t stop_tokens[REQUEST_ENDS];
    bool want_text;
    uint32_t n_stops;
    char stops[REQUEST_STOPS][REQUEST_STOP_BYTES];

    uint32_t n_choices;
    struct sim_choice *choices; /* [n_choices] owned */

    bool poison;        /* kills the worker that */
    uint32_t poison_at; /* samples this token; 0: that runs any part of it */
    enum damage damage;
    uint32_t damage_at; /* when this token is sampled */
    int64_t asked_us, arrived_us, ended_us;
    uint32_t n_ended;   /* ended sessions of its model's workers, when sent */
    bool arrived;       /* at a router, in the router's latest life */
    bool end_asked;     /* a client has cancelled or removed all of it */
    uint32_t n_asked;   /* calls to end all or some of it */
    bool left;          /* its client's session ended during it */
    bool router_lost;   /* a router died during it */
    bool bereft;        /* at some time, no open worker could hold it */
    uint64_t at_router; /* number of its call at the router */
    uint32_t conn;      /* connection of its call */

    uint32_t n_ends;
    enum status status;
};

/* Allocates the choices, after everything else is drawn. */
void sim_request_open(struct sim_request *request, uint32_t n_choices);

/* Returns whether its text is needed, and its model has a tokenizer. */
bool sim_request_has_text(const struct sim_request *request);

/* Sends it; false if the client has no place for the call. */
bool sim_request_ask(struct sim *s, struct sim_request *request);

/* Marks all of it as ended on purpose: its client leaves, or may leave. */
void sim_request_doomed(struct sim_request *request);

/* Marks a choice, or CHOICE_ALL, as cancelled or removed; also in other
 * requests with the same id. */
void sim_request_end_asked(struct sim *s, const struct sim_request *request,
                           uint32_t choice);

/* Returns whether the seed explains that it ended with request->status. */
bool sim_request_explained(const struct sim_request *request);

/* Checks the seed that a router or a worker reports. */
void sim_request_seed(struct sim_request *request, uint64_t seed);

/* Feeds the prompt from o->n on. */
void sim_request_feed(const struct sim_request *request, struct oracle *o);

/* Returns the number of blocks that a choice reserves on a worker with blocks
 * of this size. */
uint32_t sim_request_blocks(const struct sim_request *request,
                            uint32_t block_tokens);
/* Returns the most pages of its window blocks on worker w. */
uint32_t sim_request_windows(const struct sim_request *request, uint32_t w);

/* Returns whether any worker of the seed has a pool that can hold it. */
bool sim_request_fits(const struct sim *s, const struct sim_request *request);

/* Returns whether the empty pool of worker w can hold a choice of it. */
bool sim_request_fits_alone(const struct sim *s,
                            const struct sim_request *request, uint32_t w);

/* Returns whether worker w can hold it; for a stage, whether every stage of its
 * model can. */
bool sim_request_fits_at(const struct sim *s, const struct sim_request *request,
                         uint32_t w);

/* Makes it poison that strikes at this token. */
void sim_request_envenom(struct sim_request *request, uint32_t at);

/* Returns the poison request that has this seed; NULL if there is none. */
struct sim_request *sim_request_poison(struct sim *s, uint64_t seed);

/* Damages it at this token.  The engine always finds the damage there. */
void sim_request_hurt(struct sim_request *request, enum damage damage,
                      uint32_t at);

/* Returns the damaged request that has this seed; NULL if there is none. */
struct sim_request *sim_request_hurt_of(struct sim *s, uint64_t seed);

void sim_request_fini(struct sim_request *request);

#endif
