/* stage_bench.h - a worker core with some layers on a bench: the router's end,
 * the stage before it, the stage after it, and a fake engine, with a clock
 * that the test moves.
 *
 * The stage before is a session, the one after a greeter, as in a worker.  The
 * engine adds 1 to each value of x, and keeps of each block and slot whose it
 * is and how far: a row at a wrong position, or with a table or slot of
 * another, fails the test.  The last stage's engine samples what it finds in
 * the last value of the row (bench_x()). */
#ifndef TESTS_UNIT_WORKER_STAGE_BENCH_H
#define TESTS_UNIT_WORKER_STAGE_BENCH_H

#include "common/wire/greeter.h"
#include "common/wire/session.h"
#include "proto/registry.pb-c.h"
#include "proto/stage.pb-c.h"
#include "proto/worker.pb-c.h"
#include "worker/stages/assembly.h"
#include "worker/worker_core.h"

#define BENCH_HIDDEN 4u
#define BENCH_VOCAB  1000u
#define BENCH_FRAMES 1024
#define BENCH_SAID   256
#define BENCH_ROWS   16
#define BENCH_CALLS  64
#define BENCH_GRANT  100 /* of the leader before the first of an assembly */

/* A message that came to the next stage. */
struct bench_said {
    enum method method;
    uint64_t grant, step;
    uint32_t n; /* rows, ids, receipts, tokens */
    uint64_t grants[BENCH_ROWS];
    uint32_t position[BENCH_ROWS], count[BENCH_ROWS], kind[BENCH_ROWS];
    uint32_t index[BENCH_ROWS], blocks[BENCH_ROWS], slots[BENCH_ROWS];
    uint32_t tokens[BENCH_ROWS], width[BENCH_ROWS], n_width;
    uint32_t n_device_us, device_us[BENCH_ROWS];
    uint32_t n_logprobs, n_top;
    float logprobs[BENCH_ROWS];
    uint32_t top[BENCH_ROWS];
    uint32_t n_x; /* bytes of the tensor */
    float x[BENCH_ROWS];
    char failure[ERROR_TEXT];
};

struct bench_end {
    bool ended;
    enum status status;
    char text[ERROR_TEXT];
};

struct bench_frame {
    struct peer_id who; /* the connection, as the worker names it */
    struct frame *frame;
};

struct bench {
    struct worker_options o;
    struct worker_core *worker;
    struct node_io io, router_io, before_io, next_io;
    struct arena arena;
    int64_t now_us, due_us;
    uint64_t random;
    struct bench_frame to_worker[BENCH_FRAMES], from_worker[BENCH_FRAMES];
    uint32_t n_to_worker, n_from_worker;
    bool mute;               /* nothing of the edges arrives any more */
    bool deaf;               /* the next stage loses what comes */
    void (*within)(bool in); /* the core is entered, left; NULL: whatever */

    /* The router. */
    struct peer_id router_id;
    bool router_opening;
    struct peer *router;
    uint64_t session, calls;
    struct bench_end ends[BENCH_CALLS];
    uint32_t n_broken, n_reports, n_outputs, n_hellos, n_goodbyes;
    uint64_t broken;
    char why[ERROR_TEXT];
    uint64_t ledger_grant;
    char endpoint[ENDPOINT_MAX]; /* as Hello told it */
    uint32_t hidden, step_tokens;

    /* The edges. */
    uint64_t assembly;
    uint32_t stage, n_stages;
    struct session before;
    bool has_before, before_opening;
    struct peer_id before_id;
    struct peer *out; /* of the stage before */
    char refused[ERROR_TEXT];
    struct greeter next;
    bool next_opening;
    struct peer_id next_id;
    struct peer *in; /* of the stage after */
    struct bench_said said[BENCH_SAID];
    uint32_t n_said;

    /* What the leader has said. */
    uint64_t grant; /* of the newest Open */
    uint64_t own;   /* this stage's, of it */
    uint64_t step;

    /* The engine. */
    struct engine engine;
    const struct plan *plan; /* in flight */
    struct plan_result result;
    bool has_result, refuse_plans, no_hidden;
    bool astray; /* rows of what is spoilt may be anywhere */
    bool stands; /* it ticks no more */
    bool lost;   /* the device is, says the next result */
    const char *fail_next;
    uint32_t n_plans;
    float *x;
    uint64_t *block_owner, *slot_owner; /* sequence */
    uint32_t *slot_n;
};

/* Stage 1 of 3, or the last of two (layers 2-4 of 4), a session up and no
 * assembly. */
struct bench *bench_new(bool last);
struct bench *bench_new_wide(bool last, uint32_t hidden);
/* All is free at the end, which is checked. */
void bench_free(struct bench **b);

void bench_turn(struct bench *b);
void bench_advance(struct bench *b, int64_t us);
/* Run the plan in flight; false: there is none. */
bool bench_run(struct bench *b);

/* A new assembly, as the router orders it; returns the call. */
uint64_t bench_order(struct bench *b);
void bench_message(const struct bench *b, Sluice__V1__AssembleRequest *m);
uint64_t bench_send_assemble(struct bench *b,
                             const Sluice__V1__AssembleRequest *m);
/* The stage before connects, with the assembly and place that it is told. */
void bench_connect(struct bench *b, uint64_t assembly, uint32_t index);
/* Both: it is up. */
void bench_assemble(struct bench *b);

/* The leader's next Open, as it should be; to be changed before it is sent. */
struct bench_open {
    Sluice__V1__StageOpen m;
    Sluice__V1__StageGrants stages;
    Sluice__V1__SequenceRef ref;
    Sluice__V1__Sampling sampling;
    uint8_t id[16];
    uint64_t grants[STAGES_MAX];
    uint32_t blocks[STAGES_MAX], slots[STAGES_MAX], checkpoints[STAGES_MAX];
    uint32_t ids[64];
};
void bench_open(struct bench *b, struct bench_open *o, uint32_t n_prompt,
                uint32_t max_tokens);
/* And as it is: returns the grant. */
uint64_t bench_open_plain(struct bench *b, uint32_t n_prompt,
                          uint32_t max_tokens);

struct bench_forward {
    Sluice__V1__StageForward m;
    uint64_t grant[BENCH_ROWS];
    uint32_t position[BENCH_ROWS], count[BENCH_ROWS], kind[BENCH_ROWS];
    uint32_t index[BENCH_ROWS], device_us[STAGES_MAX];
    uint32_t n_tokens; /* of x, which goes with it */
};
/* No rows yet; then one at a time.  index: of the token to choose, UINT32_MAX:
 * none. */
void bench_begin(struct bench *b, struct bench_forward *f);
void bench_row(struct bench_forward *f, uint64_t grant, bool generated,
               uint32_t position, uint32_t count, uint32_t index);
void bench_send(struct bench *b, struct bench_forward *f);
/* One row alone. */
void bench_forward(struct bench *b, uint64_t grant, bool generated,
                   uint32_t position, uint32_t count, uint32_t index);

void bench_remove(struct bench *b, uint64_t grant);
/* Anything, from the stage before; then a turn. */
void bench_say(struct bench *b, enum method m, const ProtobufCMessage *message);

/* x of token i of a Forward. */
float bench_x(uint64_t step, uint32_t token);

/* The assembly has ended, with a sentence that has this in it. */
void bench_check_broken(struct bench *b, const char *text);
const struct bench_said *bench_last(const struct bench *b, enum method m);
struct worker_account bench_account(const struct bench *b);

#endif
