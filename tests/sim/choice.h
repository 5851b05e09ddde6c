/* choice.h - what came of one choice of a request, and whether that was
 * right: every token once and in order, with the logprobs of the oracle, the
 * text of those tokens, cut where the first stop string is. */
#ifndef SIM_CHOICE_H
#define SIM_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire/wire.h"
#include "proto/inference.pb-c.h"
#include "tests/sim/oracle.h"
#include "tests/sim/vocabulary.h"

#define CHOICE_ALL UINT32_MAX /* where one could be named */

struct sim_request;

struct sim_choice {
    struct sim_request *g;
    uint32_t number;

    uint32_t *got; /* [n_got] of max_tokens; owned */
    uint32_t n_got, n_checked;
    float *logprobs;      /* [n_got] */
    uint32_t *top_tokens; /* [n_got * n_top] */
    float *top_logprobs;  /* [n_got * n_top] */
    struct oracle oracle; /* prompt and got[0..n_checked) */

    /* Made of what it got by the simulator: the text that is certain after
     * each token, and what came. */
    struct plain_text plain;
    char *text;         /* [n_text] */
    uint32_t *text_end; /* [n_got] bytes of text after each token */
    size_t n_text, n_told;

    uint32_t finish; /* proto's Finish, of the last chunk */
    bool figured;    /* its figures came */
    bool stopped;    /* by a stop string */
    uint32_t stop_string;

    bool end_asked;             /* somebody has asked for its end */
    uint32_t submitted_conn;    /* the last that took its Submit, */
    uint64_t submitted_session; /* and by which session */
    bool adopting;              /* of what lives there */
    uint32_t n_moves;
    uint32_t n_given; /* tokens that the last Submit brought */
    uint32_t n_had;   /* tokens that its client went on with last */
    /* Workers that it killed in a row without TRIAL_TOKENS tokens between
     * two, and what the Submit to the last of them brought, by which way. */
    uint32_t n_killed, n_given_killed, killed_conn;
    uint32_t freed_blocks, freed_slots; /* by receipts of its workers */
};

void sim_choice_init(struct sim_choice *c, struct sim_request *g,
                     uint32_t number);
void sim_choice_fini(struct sim_choice *c);

/* A chunk of it came. */
void sim_choice_chunk(struct sim_choice *c, const Sluice__V1__GenerateChunk *m);

/* Compare what came since the last time. */
void sim_choice_check(struct sim_choice *c);

/* It has ended by itself: is this all, and the reason the right one? */
void sim_choice_check_whole(struct sim_choice *c);

#endif
