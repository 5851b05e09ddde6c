/* request.h - what a client of the simulator asked for, what it got, and
 * whether that was right. */
#ifndef SIM_REQUEST_H
#define SIM_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "client/lib/resumable.h"
#include "tests/sim/choice.h"
#include "tests/sim/oracle.h"

struct sim;

#define GENERATION_CHOICES    8
#define GENERATION_ENDS       4 /* stop tokens */
#define GENERATION_STOPS      4 /* stop strings */
#define GENERATION_STOP_BYTES 40

/* What is wrong with a request on purpose. */
enum defect {
    DEFECT_NONE,
    DEFECT_EMPTY,   /* no prompt */
    DEFECT_TOKEN,   /* an id past the vocabulary */
    DEFECT_CONTEXT, /* longer than the model's context */
    DEFECT_MODEL,   /* of a model that nobody has */
    DEFECT_TOP_P,   /* a sampling value out of range */
    DEFECT_N,       /* no choice, or too many */
    DEFECT_STOP,    /* an empty stop string */
    DEFECTS
};

struct sim_request {
    struct sim *sim;
    uint32_t number;
    uint8_t id[16];
    uint32_t client, client_life; /* the node that asked */
    struct resumable stream;
    struct asked *asked; /* what it borrows; owned */
    bool resumes;
    bool lost_prefill, lost_decode; /* choices that ran when it was lost */

    uint32_t model;
    enum defect defect;
    bool as_text, seed_given;
    bool again, shared; /* its id was used before, or is used again */
    uint32_t *prompt;   /* [n_prompt] owned */
    uint32_t n_prompt, max_tokens, keep_ms, deadline_ms;
    struct sampling sampling; /* lists below */
    uint32_t *bias_tokens;    /* [n_biases] owned */
    float *biases;            /* [n_biases] owned */
    uint32_t stop_tokens[GENERATION_ENDS];
    bool want_text;
    uint32_t n_stops;
    char stops[GENERATION_STOPS][GENERATION_STOP_BYTES];

    uint32_t n_choices;
    struct sim_choice *choices; /* [n_choices] owned */

    bool poison;        /* it kills the worker that */
    uint32_t poison_at; /* samples this token of it; 0: that runs any of it */
    int64_t asked_us, arrived_us, ended_us;
    uint32_t n_ended;   /* sessions of its model's workers, when it was asked */
    bool arrived;       /* at a router, in its latest life */
    bool end_asked;     /* somebody has asked for the end of all of it */
    uint32_t n_asked;   /* how often, of all or some */
    bool left;          /* its client's session ended with it */
    bool router_lost;   /* a router died with it */
    bool bereft;        /* no open worker could hold it, for a time */
    uint64_t at_router; /* its call's number */
    uint32_t conn;      /* that it went by */

    uint32_t n_ends;
    enum status status;
};

/* After everything else is drawn: its choices. */
void sim_request_open(struct sim_request *g, uint32_t n_choices);

/* Has its model a tokenizer, and somebody a use for it? */
bool sim_request_has_text(const struct sim_request *g);

/* Ask for it; false if the client has no place for the call. */
bool sim_request_ask(struct sim *s, struct sim_request *g);

/* Its client goes, or may go: all of it may end. */
void sim_request_doomed(struct sim_request *g);

/* Somebody asks for the end of a choice, or of CHOICE_ALL: its own, and that
 * of others with its id. */
void sim_request_end_asked(struct sim *s, const struct sim_request *g,
                           uint32_t choice);

/* The seed that a router or a worker says it has. */
void sim_request_seed(struct sim_request *g, uint64_t seed);

/* Blocks that a worker with blocks of this size must promise for a choice. */
uint32_t sim_request_blocks(const struct sim_request *g, uint32_t block_tokens);

/* Does any worker of the seed have a pool that can hold it? */
bool sim_request_fits(const struct sim *s, const struct sim_request *g);

/* Worker w of them, or every replica that it may be a stage of? */
bool sim_request_fits_at(const struct sim *s, const struct sim_request *g,
                         uint32_t w);

/* It is poison, at that token. */
void sim_request_envenom(struct sim_request *g, uint32_t at);

/* The poison that says by its seed that it is one; NULL: it is none. */
struct sim_request *sim_request_poison(struct sim *s, uint64_t seed);

void sim_request_fini(struct sim_request *g);

#endif
