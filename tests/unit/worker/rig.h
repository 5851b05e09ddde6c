/* rig.h - a worker core on a bench: a router's end of the wire on one side, a
 * fake engine on the other, a clock that the test moves.
 *
 * The engine keeps what each block and slot was given and checks every row
 * against it: a table that names the wrong block, a slot that was not zeroed
 * or a position left out fails the test in rig_step().  What it samples is a
 * function of the ids it finds, which rig_expect() computes apart.
 *
 * It looks at a plan twice, when it comes and when it runs: sampling
 * parameters and histories must be the same, and a history what the blocks
 * hold.  Each logprob is a function of the token and its index, which the
 * router's end checks bit for bit in every output. */
#ifndef TESTS_UNIT_WORKER_RIG_H
#define TESTS_UNIT_WORKER_RIG_H

#include "common/wire/peer.h"
#include "proto/registry.pb-c.h"
#include "proto/worker.pb-c.h"
#include "worker/cache/logprobs.h"
#include "worker/worker_core.h"

#define RIG_GRANTS    4096
#define RIG_TAGS      8192
#define RIG_FRAMES    4096
#define RIG_SNAPSHOTS 256
#define RIG_LIVE      WORKER_SEQUENCES_MAX
#define RIG_VOCAB     1000u
#define RIG_EOS       7u
#define RIG_CONTEXT   512u

/* How our call ended. */
struct rig_end {
    bool ended;
    enum status status;
    char text[ERROR_TEXT];
    uint32_t retry_after_ms;
    struct {
        int state;
        uint32_t n_generated, blocks, slots, checkpoints;
        uint64_t micros, snapshot;
        uint32_t n_stages, stage_blocks[16], stage_slots[16];
    } receipt;
    uint32_t differences; /* of an Audit */
};

/* What StepOutput said of a grant. */
struct rig_heard {
    uint32_t tokens[RIG_CONTEXT];
    uint32_t n, rows, finish, state;
    uint32_t width; /* values a token that its rows must have */
    bool forgotten; /* answer with "forget it" */
};

/* A row of Live. */
struct rig_live {
    uint32_t id, choice, n_generated, expires_ms;
};

struct rig_fake; /* the engine's memory */
struct ring;     /* the other stages: ring.h */

struct rig {
    struct worker_options o;
    struct node_io io, router_io;
    struct worker_core *worker;
    struct ring *ring;       /* NULL: the worker is alone */
    void (*within)(bool in); /* told when the worker runs, or NULL */
    int64_t now_us, due_us;
    uint64_t random;

    /* The wire. */
    struct frame *to_router[RIG_FRAMES], *to_worker[RIG_FRAMES];
    uint32_t n_to_router, n_to_worker;
    struct peer_id id;
    bool opening, open, answer_hello;
    bool broken;      /* the cable: frames vanish, nobody is told */
    uint32_t n_eaten; /* so */
    size_t eaten_bytes;
    uint64_t session;
    struct peer *peer;
    struct arena arena;

    /* What was heard. */
    struct rig_end ends[RIG_TAGS];
    struct rig_heard heard[RIG_GRANTS];
    Sluice__V1__Ledger ledger;
    Sluice__V1__ClassLedger blocks, slots, pages;
    Sluice__V1__EngineState heard_engine;
    bool has_engine;                        /* some report spoke of it */
    uint32_t free_blocks_at[RIG_SNAPSHOTS]; /* [snapshot % RIG_SNAPSHOTS] */
    uint32_t n_reports, n_outputs, n_hellos, n_goodbyes;
    uint64_t last_step;
    uint32_t last_count[STEP_ROWS_MAX]; /* of the rows of the newest output */
    uint32_t last_outs, last_logprobs;
    char failure[ERROR_TEXT];
    bool acknowledge;
    uint64_t grant, tag; /* the last used */
    uint64_t leave_call; /* a Leave that is open, 0: none */
    uint32_t n_leaves, leave_grace_ms;
    uint32_t n_broken; /* Registry/Broken, and the last one's sentence */
    char broken_why[ERROR_TEXT];
    uint32_t n_stage_us, stage_us[16]; /* of the newest output */
    struct rig_live live[RIG_LIVE];    /* of this session */
    uint32_t n_live, n_lives;          /* rows, messages */
    uint32_t hello_live;               /* rows that Hello announced */

    /* The engine. */
    struct engine engine;
    struct rig_fake *fake;
    uint32_t eos_at;       /* sample RIG_EOS at this index, UINT32_MAX: never */
    const char *fail_next; /* the next step fails with this */
    bool refuse_plans;     /* submit fails */
    bool ticks;            /* all the time, not only with each step */
    void (*lie)(struct plan_result *); /* told of the next step's result */
    bool hears_lies;                   /* logprobs are not compared */
    uint32_t n_steps;
    uint32_t last_rows, last_tokens; /* of the newest plan */
};

void rig_defaults(struct worker_options *o);

/* With a session up.  o: NULL for the defaults. */
struct rig *rig_new(const struct worker_options *o);
struct rig *rig_with_depth(uint32_t depth);
/* Checks that the pool is whole. */
void rig_free(struct rig **r);

/* Deliver all that waits, tick; checks the account each time. */
void rig_turn(struct rig *r);
/* Let time pass, in turns of a millisecond. */
void rig_advance(struct rig *r, int64_t us);
/* Run the oldest plan and turn; false if none was in flight. */
bool rig_step(struct rig *r);
uint32_t rig_inflight(const struct rig *r);
/* Steps until nothing is in flight. */
void rig_run(struct rig *r);

/* The plan in flight, 0 the oldest; NULL past the last. */
const struct plan *rig_plan(const struct rig *r, uint32_t i);

/* The connection breaks; a turn and some time later there is a new session.*/
void rig_lose(struct rig *r);
void rig_reconnect(struct rig *r);

struct rig_submit {
    uint32_t id, choice; /* request_id is made of id */
    uint32_t n_prompt, max_tokens, n_generated;
    uint32_t n_first; /* ids in the Submit itself; 0: all */
    uint32_t keep_ms;
    bool ignore_eos;
    bool has_have;
    uint32_t have;
    const uint32_t *generated; /* [n_generated] */
    bool logprobs, penalise;
    uint32_t n_top;
};

/* Grants and needs at the other stages. */
struct rig_stages {
    Sluice__V1__StageGrants m;
    uint64_t grant[16];
    uint32_t blocks[16], slots[16], checkpoints[16];
};

/* Fill in a message, whose arrays live in buf. */
struct rig_message {
    Sluice__V1__SubmitRequest m;
    Sluice__V1__SequenceRef ref;
    Sluice__V1__Need need;
    Sluice__V1__Sampling sampling;
    struct rig_stages stages;
    uint8_t id[16];
    uint32_t ids[RIG_CONTEXT];
    uint32_t n_ids;
};
void rig_message(struct rig *r, const struct rig_submit *s,
                 struct rig_message *out);

/* All give the tag; grants are numbered on.  No turn is made. */
uint64_t rig_send_submit(struct rig *r, const struct rig_message *m);
uint64_t rig_submit(struct rig *r, const struct rig_submit *s);
void rig_part(struct rig *r, uint64_t grant, const struct rig_message *m,
              uint32_t offset, uint32_t n);
uint64_t rig_cancel(struct rig *r, uint32_t id);
uint64_t rig_cancel_choice(struct rig *r, uint32_t id, uint32_t choice);
uint64_t rig_cancel_grant(struct rig *r, uint32_t id, uint64_t grant);
uint64_t rig_remove(struct rig *r, uint32_t id);
void rig_ack(struct rig *r, uint64_t grant, uint32_t index);
/* Submit{adopt} of the choice that s describes; the router has s->have tokens
 * of it, and they are the right ones. */
uint64_t rig_adopt(struct rig *r, const struct rig_submit *s);
void rig_adopt_message(struct rig *r, const struct rig_submit *s,
                       struct rig_message *out);
void rig_disown(struct rig *r, uint32_t id, uint32_t choice);

int rig_state(const struct rig *r, uint32_t id);
int rig_choice_state(const struct rig *r, uint32_t id, uint32_t choice);
struct worker_account rig_account(const struct rig *r);
/* Everything free again and nothing remembered. */
void rig_check_empty(const struct rig *r);

/* The i-th id of a prompt, and the tokens that follow it. */
uint32_t rig_prompt_id(uint32_t id, uint32_t i);
void rig_expect(uint32_t id, uint32_t n_prompt, uint32_t n, uint32_t *out);
void rig_expect_choice(uint32_t id, uint32_t choice, uint32_t n_prompt,
                       uint32_t n, uint32_t *out);
/* Is that what was heard of a grant? */
void rig_check_tokens(const struct rig *r, uint64_t grant, uint32_t id,
                      uint32_t n_prompt, uint32_t n);
void rig_check_ok(const struct rig *r, uint64_t tag);

/* Of a token at an index, and of the i-th best there. */
float rig_logprob(uint32_t token, uint32_t index);
struct token_logprob rig_top(uint32_t token, uint32_t index, uint32_t i);

#endif
