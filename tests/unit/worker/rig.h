/* rig.h - A worker core on a bench, with a router's end of the wire, a fake
 * engine, and a clock that the test advances.
 *
 * The engine records the writes to each page (rig_memory.h), and checks every
 * row against them.  A table with a wrong block, a slot that was not zeroed, or
 * a skipped position fails the test in rig_step().  The sampled token is a
 * function of the ids in the blocks, which rig_expect() computes separately.
 *
 * The engine reads a plan twice, when it comes and when it runs: sampling
 * parameters and histories must not change, and a history must match the
 * blocks. Each logprob is a function of the token and its index.  The router's
 * end checks the logprobs of every output bit for bit. */
#ifndef TESTS_UNIT_WORKER_RIG_H
#define TESTS_UNIT_WORKER_RIG_H

#include "common/wire/peer.h"
#include "proto/registry.pb-c.h"
#include "proto/worker.pb-c.h"
#include "worker/cache/logprobs.h"
#include "worker/cache/prefix.h"
#include "worker/worker_core.h"

#define RIG_GRANTS    4096
#define RIG_TAGS      8192
#define RIG_FRAMES    4096
#define RIG_SNAPSHOTS 256
#define RIG_LIVE      WORKER_SEQUENCES_MAX
#define RIG_VOCAB     1000u
#define RIG_EOS       7u
#define RIG_CONTEXT   512u  /* rig_defaults() */
#define RIG_IDS       4096u /* most ids of a sequence */

/* How many drafts of the fake MTP layer are right. */
enum rig_drafts {
    RIG_DRAFTS_RIGHT,
    RIG_DRAFTS_WRONG,
    RIG_DRAFTS_THIRD, /* each third token's is wrong */
    RIG_DRAFTS_MIXED  /* as a hash decides; some rows get fewer drafts */
};

/* The end of a call by the router's end. */
struct rig_end {
    bool ended;
    enum status status;
    char text[ERROR_TEXT];
    uint32_t retry_after_ms;
    struct {
        int state;
        uint32_t n_generated, blocks, slots, checkpoints, windows;
        uint64_t micros, snapshot;
        bool has_position;
        uint32_t position;
        uint32_t n_stages, stage_blocks[16], stage_slots[16];
    } receipt;
    uint32_t differences; /* an Audit's */
    bool has_host;        /* ... ledger has figures of host memory */
};

/* The rows of StepOutput for one grant. */
struct rig_heard {
    uint32_t tokens[RIG_CONTEXT];
    uint32_t n, rows, finish, state;
    uint32_t width; /* expected values per token */
    uint32_t reused;
    bool forgotten; /* acknowledge with INDEX_FORGET */
};

/* A row of Live. */
struct rig_live {
    uint32_t id, choice, n_generated, expires_ms;
    bool grows;
};

/* The router's copy of the index. */
struct rig_index {
    struct prefix_event *events; /* [n] that are restorable */
    uint32_t n, n_messages, n_snapshots;
    uint64_t next; /* number of the next event */
    bool copying;  /* a snapshot continues */
};

struct rig_fake; /* the engine's memory */
struct ring;     /* the other stages: ring.h */

struct rig {
    struct worker_options o;
    struct node_io io, router_io;
    struct worker_core *worker;
    struct ring *ring;       /* NULL: the worker is alone */
    void (*within)(bool in); /* called around the worker, or NULL */
    int64_t now_us, due_us;
    uint64_t random;

    /* The wire. */
    struct frame *to_router[RIG_FRAMES], *to_worker[RIG_FRAMES];
    uint32_t n_to_router, n_to_worker;
    struct peer_id id;
    bool opening, open, answer_hello;
    bool broken;      /* the cable is cut: frames vanish silently */
    uint32_t n_eaten; /* expected to be so */
    size_t eaten_bytes;
    uint64_t session;
    struct peer *peer;
    struct arena arena;

    /* Everything that the router's end has received. */
    struct rig_end ends[RIG_TAGS];
    struct rig_heard heard[RIG_GRANTS];
    Sluice__V1__Ledger ledger;
    Sluice__V1__ClassLedger blocks, slots, pages;
    Sluice__V1__EngineState heard_engine;
    Sluice__V1__DraftCounts drafts_heard;
    bool tier_heard; /* the newest ledger has it */
    Sluice__V1__HostTier tier;
    bool has_engine;                        /* some report has mentioned it */
    uint32_t used_blocks_at[RIG_SNAPSHOTS]; /* [snapshot % RIG_SNAPSHOTS] */
    uint32_t n_reports, n_outputs, n_hellos, n_goodbyes;
    uint64_t last_step;
    uint32_t last_count[STEP_ROWS_MAX]; /* in the newest output's rows */
    uint32_t last_outs, last_logprobs;
    char failure[ERROR_TEXT];
    bool acknowledge;
    uint64_t grant, tag; /* the newest one in use */
    uint64_t leave_call; /* a Leave that is open, 0: none */
    uint32_t n_leaves, leave_grace_ms;
    uint32_t n_broken; /* Registry/Broken, and the newest reason */
    char broken_why[ERROR_TEXT];
    uint32_t n_stage_us, stage_us[16]; /* the newest output's */
    struct rig_live live[RIG_LIVE];    /* in this session */
    uint32_t n_live, n_lives;          /* rows, messages */
    uint32_t hello_live;               /* rows that Hello announced */
    uint32_t minor; /* lower than this version's, in HelloReply; 0: as ours */
    struct {
        bool has_chunk, has_window;
        uint32_t chunk_tokens, window_tokens, window_pages;
    } hello_windows;
    bool keyless;     /* Hello is answered without a key of hashes */
    uint8_t key_byte; /* each byte of the key */
    struct rig_index index;

    /* The engine. */
    struct engine engine;
    struct rig_fake *fake;
    uint32_t eos_at;       /* sample RIG_EOS at this index; UINT32_MAX: never */
    const char *fail_next; /* error of the next step */
    uint64_t fails_with;   /* every step with this sequence fails; 0: none.
                            * Sequences are numbered from 1 */
    uint64_t damaged;      /* rows of this sequence have no finite logits */
    bool refuse_plans;     /* submit fails */
    bool refuse_once;      /* the next submit fails */
    bool ticks;            /* ticks always, not only with each step */
    void (*lie)(struct plan_result *); /* called with the next step's result */
    bool hears_lies;                   /* logprobs are not compared */
    uint32_t n_steps;
    uint32_t n_computed, n_twins; /* positions and twins of all plans */
    enum rig_drafts drafts;
    uint32_t token_us;             /* device time of each token of a step */
    uint32_t n_drafts, n_accepted; /* all plans together */
    bool counts; /* a token is the sum of the ids before it, modulo 8 */
    uint32_t last_rows, last_tokens; /* the newest plan's */
};

void rig_defaults(struct worker_options *o);

/* Sets the options of drafts, to some that `seed` draws, or none. */
void rig_draw_drafts(struct worker_options *o, uint64_t seed);

/* Makes a rig with a session up. o: NULL for the defaults. */
struct rig *rig_new(const struct worker_options *o);
struct rig *rig_with_depth(uint32_t depth);
/* Checks that the pool is whole, and frees the rig. */
void rig_free(struct rig **r);

/* Delivers everything that waits, and ticks; checks the account each time. */
void rig_turn(struct rig *r);
/* Lets time pass, in turns of a millisecond. */
void rig_advance(struct rig *r, int64_t us);
/* Runs the oldest plan, and a turn. Returns false if none was in flight. */
bool rig_step(struct rig *r);
uint32_t rig_inflight(const struct rig *r);
/* Steps until no plan is in flight. */
void rig_run(struct rig *r);

/* Returns the i-th plan in flight, 0 being the oldest; NULL past the last. */
const struct plan *rig_plan(const struct rig *r, uint32_t i);

/* Returns the deepest restorable position of a prompt, as the router sees it.
 */
uint32_t rig_index_find(const struct rig *r, const char *tenant,
                        const uint32_t *ids, uint32_t n);
/* Requests a snapshot. */
void rig_index_snapshot(struct rig *r);

/* Breaks the connection; a turn and some time later there is a new session. */
void rig_lose(struct rig *r);
void rig_reconnect(struct rig *r);

struct rig_submit {
    uint32_t id, choice; /* the request_id is made of it */
    uint32_t n_prompt, max_tokens, n_generated;
    uint32_t n_first; /* ids in the Submit itself; 0: all */
    uint32_t keep_ms, deadline_ms;
    bool ignore_eos;
    bool has_have;
    uint32_t have;
    const uint32_t *generated; /* [n_generated] */
    bool logprobs, penalise;
    uint32_t n_top;
    const uint32_t *prompt; /* [n_prompt]; NULL: rig_prompt_id() of id */
    const char *tenant;     /* NULL: none */
    const char *salt;       /* cache_salt; NULL: none */
    bool no_cache;
    bool has_drafts;
    uint32_t drafts;
    uint32_t n_spans;
    const uint32_t *spans;
    uint32_t grows; /* tokens that need covers behind the ids; 0: all */
    uint32_t from;  /* continue_from: the id of a kept sequence; 0: none */
};

/* Grants and needs at the other stages. */
struct rig_stages {
    Sluice__V1__StageGrants m;
    uint64_t grant[16];
    uint32_t blocks[16], slots[16], checkpoints[16], windows[16];
};

/* Fills in a message, whose arrays are in buf. */
struct rig_message {
    Sluice__V1__SubmitRequest m;
    Sluice__V1__SequenceRef ref;
    Sluice__V1__Need need;
    Sluice__V1__Sampling sampling;
    struct rig_stages stages;
    uint8_t id[16];
    uint32_t ids[RIG_IDS];
    uint32_t n_ids;
    Sluice__V1__SequenceRef from;
    uint8_t from_id[16];
};
void rig_message(struct rig *r, const struct rig_submit *s,
                 struct rig_message *out);

/* Send a message and return its tag; grants are numbered on. No turn is
 * made. */
uint64_t rig_send_submit(struct rig *r, const struct rig_message *m);
uint64_t rig_submit(struct rig *r, const struct rig_submit *s);
void rig_part(struct rig *r, uint64_t grant, const struct rig_message *m,
              uint32_t offset, uint32_t n);
uint64_t rig_cancel(struct rig *r, uint32_t id);
uint64_t rig_cancel_choice(struct rig *r, uint32_t id, uint32_t choice);
uint64_t rig_cancel_grant(struct rig *r, uint32_t id, uint64_t grant);
uint64_t rig_remove(struct rig *r, uint32_t id);
/* Sends RemoveSequence of [begin, end); end = 0: without one. */
uint64_t rig_remove_range(struct rig *r, uint32_t id, uint32_t begin,
                          uint32_t end);
void rig_ack(struct rig *r, uint64_t grant, uint32_t index);
/* Sends Submit{adopt} for the choice that s describes; the router has its
 * first s->have tokens. */
uint64_t rig_adopt(struct rig *r, const struct rig_submit *s);
void rig_adopt_message(struct rig *r, const struct rig_submit *s,
                       struct rig_message *out);
void rig_disown(struct rig *r, uint32_t id, uint32_t choice);

int rig_state(const struct rig *r, uint32_t id);
int rig_choice_state(const struct rig *r, uint32_t id, uint32_t choice);
struct worker_account rig_account(const struct rig *r);
/* Returns the blocks that are held or granted. */
uint32_t rig_used_blocks(const struct rig *r);
/* Checks that everything is free again and no sequence remembered. */
void rig_check_empty(const struct rig *r);

/* Return the i-th id of a prompt, and the tokens that follow the prompt. */
uint32_t rig_prompt_id(uint32_t id, uint32_t i);
void rig_expect(uint32_t id, uint32_t n_prompt, uint32_t n, uint32_t *out);
void rig_expect_choice(uint32_t id, uint32_t choice, uint32_t n_prompt,
                       uint32_t n, uint32_t *out);
/* The same for any prompt, whose first ids have the kinds of spans[n_spans];
 * the hash of the rig's engine depends on kinds unless it has one arithmetic.
 */
struct rig_prompt {
    const uint32_t *ids;
    uint32_t n;
    const uint32_t *spans;
    uint32_t n_spans;
    uint32_t choice;
};
void rig_expect_prompt(const struct rig *r, const struct rig_prompt *p,
                       uint32_t n, uint32_t *out);
/* Checks the rows that came for a grant. */
void rig_check_tokens(const struct rig *r, uint64_t grant, uint32_t id,
                      uint32_t n_prompt, uint32_t n);
void rig_check_ok(const struct rig *r, uint64_t tag);

/* Return the logprob of a token at an index, and of the i-th best there. */
float rig_logprob(uint32_t token, uint32_t index);
struct token_logprob rig_top(uint32_t token, uint32_t index, uint32_t i);

#endif
