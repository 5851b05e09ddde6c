/* plan.h - A schedule: sessions of turns, at absolute times.
 *
 * A session is a tree of turns; a plain request is a session of one turn.  A
 * turn without parent is due at the start of its session.  Any other turn is
 * due think_us after the end of its parent, and its prompt continues the
 * parent's prompt and answer.
 *
 * In an open loop each session has an absolute start, which nothing moves: not
 * a slow server, not a late generator.  In a closed loop, a session starts when
 * a slot is free.
 *
 * A plan is a function of its options and seed.  Every generator process runs
 * the whole plan and takes the sessions with number % n_shares == share.
 *
 * Threading: none.  Memory: traces and datasets are loaded once and shared by
 * fork(); a session lives in the caller's storage and borrows from the plan.
 * Pure, apart from reading files in plan_new(). */
#ifndef CLIENT_LOAD_PLAN_PLAN_H
#define CLIENT_LOAD_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/option.h"
#include "common/base/status.h"

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

struct plan;

/* Makes a plan and loads its files.  Returns ST_INVALID_ARGUMENT and a
 * sentence that names the option, the fault and a valid value;
 * ST_NOT_FOUND if a file cannot be read. */
MUST_CHECK enum status plan_new(struct plan **out, const struct plan_options *o,
                                struct error *e);

void plan_free(struct plan **p);

/* Begins the plan again for another share, rate or context, without loading
 * files: trace and dataset must be the same.  The same errors as plan_new().
 * After an error the plan may only be restarted or freed. */
MUST_CHECK enum status
plan_restart(struct plan *p, const struct plan_options *o, struct error *e);

/* Fills *s with the next session of the share, in order of due time.  Parts of
 * *s past its numbers of turns and pieces are not written.  Returns false at
 * the end. */
bool plan_next(struct plan *p, struct plan_session *s);

/* Returns whether the plan is a closed loop, and its number of slots for this
 * share. */
bool plan_is_closed(const struct plan *p, uint32_t *n_slots);

/* Returns a line for people: what is sent, and what was scaled down to fit the
 * context.  Valid as long as the plan. */
const char *plan_text(const struct plan *p);

/* Returns the expected requests of the whole plan; 0: unknown. */
uint64_t plan_requests(const struct plan *p);

/* A named profile: options that the command line may override. */
struct plan_profile {
    const char *name, *summary;
    struct plan_options options;
};

extern const struct plan_profile plan_profiles[]; /* ended by name NULL */

/* Fills what is absent in *o from o->profile, and sets it to NULL.  A load or a
 * content that is given replaces that of the profile as a whole.  plan_new()
 * does this.  Returns ST_INVALID_ARGUMENT if there is no such profile. */
MUST_CHECK enum status plan_profile_apply(struct plan_options *o,
                                          struct error *e);

#endif
