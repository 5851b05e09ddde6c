/* plan_types.h - The options of a plan, and the sessions that it makes.
 *
 * Threading: none.  Memory: plain data; pointers are borrowed. */
#ifndef CLIENT_LOAD_PLAN_PLAN_TYPES_H
#define CLIENT_LOAD_PLAN_PLAN_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLAN_TURNS_MAX  64        /* turns of a session */
#define PLAN_PIECES_MAX 4096      /* pieces of a turn: 2M tokens of a trace */
#define PLAN_CLOSED     (-1)      /* due_us of a closed loop */
#define PLAN_TOKENS_MAX (1 << 24) /* tokens of a prompt or output */
#define PLAN_PREFIX_MAX 1000000   /* different prefixes */
#define PLAN_BRANCH_MAX 16        /* children of a turn */

/* Options of the plan, as given on the command line.  Syntax is explained in
 * client/load/load_options.h.  NULL or 0: absent; the profile's value holds
 * then, or the default.
 *
 * Load: one of rate, concurrency and trace.  A trace with a rate or concurrency
 * gives only lengths and blocks, row by row and again from its start.
 * Content: a trace, a dataset, or lengths drawn from spreads.  The tokens of
 * `prefix` come in addition to those of `prompt`. */
struct plan_options {
    const char *rate;        /* "20", "5..50/60s", "10x30s,20x30s" */
    const char *arrivals;    /* "constant", "poisson", "gamma:0.5" */
    const char *bursts;      /* "40x2s/20s": 40 more a second, 2 s of 20 s */
    uint32_t concurrency;    /* closed loop; 0: open loop */
    const char *think;       /* pause of a slot between sessions, a spread */
    const char *prompt;      /* tokens, a spread: "512..2048"; default 256 */
    const char *output;      /* tokens, a spread; default 64 */
    const char *prefix;      /* shared tokens: "256", or "256x10": ten */
    const char *turns;       /* turns in a session, a spread */
    const char *turn_prompt; /* tokens that a later turn adds; default 64 */
    const char *turn_think;  /* a spread of times: "exp:2s"; default 1s */
    const char *branches;    /* "0.2x3": a fifth of the turns has 3 children */
    const char *trace;       /* Azure's CSV or Mooncake's JSONL */
    double trace_speed;      /* 2: twice as fast */
    double trace_scale;      /* 0.1: a tenth of the tokens */
    const char *dataset;     /* JSONL */
    const char *profile;     /* NULL, or a name of plan_profiles[] */
    uint64_t seed;
    uint64_t n_requests;  /* end after so many sessions; 0: none */
    int64_t duration_us;  /* no start at or after it; 0: none.  A closed loop
                             is ended by its generator */
    uint32_t n_variants;  /* contents repeat after so many sessions; 0: never */
    uint32_t context_max; /* scale lengths down to fit; 0: unknown */
    uint32_t share, n_shares;
    double rate_factor; /* multiplies the rate: for a search; 0: 1 */
    double rate_fixed;  /* replaces `rate`: for a search; 0: not */
};

/* Tokens drawn from seed: equal seeds give equal tokens, so that equal pieces
 * at the start of prompts are shared prefixes. */
struct plan_piece {
    uint64_t seed;
    uint32_t n;
};

/* A row of a dataset, as UTF-8.  messages: JSON, an array of role and content;
 * NULL if the row has a text. */
struct plan_entry {
    const char *text, *messages;
    const uint32_t *ids; /* [n_ids], or NULL */
    size_t n_text, n_messages, n_ids;
};

struct plan_turn {
    int32_t parent;                 /* index of an earlier turn, or -1 */
    int64_t think_us;               /* from the end of the parent */
    const struct plan_entry *entry; /* NULL: made of pieces */
    uint32_t first_piece, n_pieces; /* in plan_session.pieces */
    uint32_t n_system;              /* the first pieces: a system prompt */
    uint32_t n_new;                 /* tokens of the pieces; 0 of an entry */
    uint32_t max_tokens;
};

struct plan_session {
    uint64_t number;
    uint64_t content; /* number, or number % n_variants */
    int64_t due_us;   /* since the start of the run, or PLAN_CLOSED */
    int64_t think_us; /* closed loop: pause of its slot before it */
    uint32_t n_turns, n_pieces;
    struct plan_turn turns[PLAN_TURNS_MAX];    /* [n_turns], parents first */
    struct plan_piece pieces[PLAN_PIECES_MAX]; /* [n_pieces] */
};

#endif
