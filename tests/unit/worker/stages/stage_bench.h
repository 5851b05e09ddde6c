/* stage_bench.h - A worker core with some of the layers on a bench, with the
 * router's end, the previous stage, the next stage, a fake engine, and a clock
 * that the test advances.
 *
 * The previous stage is a session and the next one a greeter, as in a worker.
 * The engine adds 1 to each value of x.  It records each token in the pages of
 * its block and slot (rig_memory.h): a row at a wrong position, or with a
 * table, a slot or a checkpoint of other tokens, fails the test.  The last
 * stage's engine samples the last value of the row (bench_x()). */
#ifndef TESTS_UNIT_WORKER_STAGE_BENCH_H
#define TESTS_UNIT_WORKER_STAGE_BENCH_H

#include "common/wire/greeter.h"
#include "common/wire/session.h"
#include "proto/registry.pb-c.h"
#include "proto/stage.pb-c.h"
#include "proto/worker.pb-c.h"
#include "tests/unit/worker/rig_memory.h"
#include "worker/stages/assembly.h"
#include "worker/worker_core.h"

#define BENCH_HIDDEN 4u
#define BENCH_VOCAB  1000u
#define BENCH_PAGES  88u /* 64 blocks and 8 slots */
#define BENCH_KEEP   24u /* tokens whose inputs are kept */
#define BENCH_FRAMES 1024
#define BENCH_SAID   256
#define BENCH_ROWS   16
#define BENCH_IDS    64 /* in a Forward */
#define BENCH_CALLS  64
#define BENCH_GRANT  100 /* before an assembly's first Open */

/* A message that came to the next stage. */
struct bench_said {
    enum method method;
    uint64_t grant, step;
    uint32_t n; /* number of rows, ids, receipts or tokens */
    uint64_t grants[BENCH_ROWS];
    uint32_t position[BENCH_ROWS], count[BENCH_ROWS], kind[BENCH_ROWS];
    uint32_t index[BENCH_ROWS], blocks[BENCH_ROWS], slots[BENCH_ROWS];
    uint32_t tokens[BENCH_ROWS], width[BENCH_ROWS], n_width;
    uint32_t damaged[BENCH_ROWS], n_damaged;
    /* The columns of drafts. */
    uint32_t n_drafts, drafts[BENCH_ROWS], n_keep_at, keep_at[BENCH_ROWS];
    uint32_t n_propose, propose[BENCH_ROWS], n_ids, ids[BENCH_IDS];
    uint32_t n_next, next[BENCH_ROWS], n_accepted, accepted[BENCH_ROWS];
    uint32_t n_proposed, proposed[BENCH_ROWS];
    uint32_t n_proposals, proposals[BENCH_ROWS];
    uint32_t n_keep_tokens, keep_tokens[BENCH_ROWS]; /* in Geometry */
    bool proposes;
    uint32_t n_device_us, device_us[BENCH_ROWS];
    uint32_t n_saves, save_row[BENCH_ROWS], save_position[BENCH_ROWS];
    uint32_t save_name[BENCH_ROWS], n_sources, source[BENCH_ROWS];
    /* Geometry: n_pages, pages_per_block, pages_per_slot.  Keep: node, parent,
     * end.  Gone: node, checkpoint. */
    uint32_t a[BENCH_ROWS], b[BENCH_ROWS], c[BENCH_ROWS], n_b;
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
    struct peer_id who; /* the worker's number for the connection */
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
    bool mute; /* nothing arrives over the edges any more */
    bool deaf; /* the next stage drops what comes */
    void (*within)(
        bool in); /* called when the core is entered and left; may be NULL */

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
    const char *your_name;       /* in HelloReply; NULL: none */
    char endpoint[ENDPOINT_MAX]; /* from Hello */
    uint32_t hidden, step_tokens;

    /* The edges. */
    uint64_t assembly;
    uint32_t stage, n_stages;
    struct session before;
    bool has_before, before_opening;
    struct peer_id before_id;
    struct peer *out; /* the previous stage's */
    char refused[ERROR_TEXT];
    struct greeter next;
    /* Keys of the other ends, if keyed. */
    bool keyed;
    struct identity router_key, before_key, next_key;
    uint32_t n_dials; /* to the next stage, the newest with this key */
    bool dialled_keyed;
    uint8_t dialled[KEY_BYTES];
    bool next_opening;
    struct peer_id next_id;
    struct peer *in; /* the next stage's */
    struct bench_said said[BENCH_SAID];
    uint32_t n_said;

    /* The leader's stream so far. */
    uint64_t grant; /* the newest Open's */
    uint64_t own;   /* this stage's grant in it */
    uint64_t step;

    /* The engine. */
    struct engine engine;
    const struct plan *plan; /* in flight */
    struct plan_result result;
    bool has_result, refuse_plans, no_hidden;
    bool astray; /* rows of spoilt sequences may be at any position */
    bool stands; /* it makes no progress */
    bool lost;   /* the next result reports a lost device */
    const char *fail_next;
    uint64_t damaged; /* rows of this sequence have no finite logits */
    uint32_t n_plans;
    float *x;
    struct rig_memory *memory;
};

/* Makes stage 1 of 3, or the last of two (layers 2-4 of 4), with a session
 * and no assembly. */
struct bench *bench_new(bool last);
struct bench *bench_new_wide(bool last, uint32_t hidden);
/* Fills the options of both. */
void bench_options(struct worker_options *o, bool last);
struct bench *bench_new_with(const struct worker_options *o, bool last);
/* Checks that everything is free, and frees the bench. */
void bench_free(struct bench **b);

void bench_turn(struct bench *b);
void bench_advance(struct bench *b, int64_t us);
/* Runs the plan in flight. Returns false if there is none. */
bool bench_run(struct bench *b);

/* Sends Assemble, as the router does; returns the call. */
uint64_t bench_order(struct bench *b);
void bench_message(const struct bench *b, Sluice__V1__AssembleRequest *m);
uint64_t bench_send_assemble(struct bench *b,
                             const Sluice__V1__AssembleRequest *m);
/* Gives all nodes keys, from now on. */
void bench_key(struct bench *b);
/* Connects the previous stage, with this assembly and place. */
void bench_connect(struct bench *b, uint64_t assembly, uint32_t index);
/* Brings both edges up, and so the assembly. */
void bench_assemble(struct bench *b);

/* Makes the leader's next Open, which a test may change before sending. */
struct bench_open {
    Sluice__V1__StageOpen m;
    Sluice__V1__StageGrants stages;
    Sluice__V1__SequenceRef ref;
    Sluice__V1__Sampling sampling;
    uint8_t id[16];
    uint64_t grants[STAGES_MAX];
    uint32_t blocks[STAGES_MAX], slots[STAGES_MAX], checkpoints[STAGES_MAX];
    uint32_t windows[STAGES_MAX]; /* for rows of o.chunk_tokens */
    uint32_t ids[64];
};
void bench_open(struct bench *b, struct bench_open *o, uint32_t n_prompt,
                uint32_t max_tokens);
/* Sends the next Open unchanged; returns the grant. */
uint64_t bench_open_plain(struct bench *b, uint32_t n_prompt,
                          uint32_t max_tokens);

struct bench_forward {
    Sluice__V1__StageForward m;
    uint64_t grant[BENCH_ROWS];
    uint32_t position[BENCH_ROWS], count[BENCH_ROWS], kind[BENCH_ROWS];
    uint32_t index[BENCH_ROWS], device_us[STAGES_MAX];
    uint32_t save_row[BENCH_ROWS], save_position[BENCH_ROWS];
    uint32_t save_name[BENCH_ROWS], source[BENCH_ROWS];
    uint32_t drafts[BENCH_ROWS], keep_at[BENCH_ROWS], propose[BENCH_ROWS];
    uint32_t tokens[BENCH_IDS], next[BENCH_ROWS];
    uint32_t n_tokens; /* bytes of x, the tensor */
};
/* Make a Forward without rows, and add one row. index: of the token to
 * sample, UINT32_MAX: none. */
void bench_begin(struct bench *b, struct bench_forward *f);
void bench_row(struct bench_forward *f, uint64_t grant, bool generated,
               uint32_t position, uint32_t count, uint32_t index);
/* Adds a twin of an earlier row, and a save of the newest row. */
void bench_twin(struct bench_forward *f, uint64_t grant, uint32_t source,
                uint32_t position);
void bench_save(struct bench_forward *f, uint32_t position, uint32_t name);
/* Adds n drafts to the newest row, kept at keep_at.  ids: [n + 1] of the row.
 */
void bench_drafts(struct bench_forward *f, uint32_t keep_at,
                  const uint32_t *ids, uint32_t n);
void bench_send(struct bench *b, struct bench_forward *f);
/* Sends a Forward with one row. */
void bench_forward(struct bench *b, uint64_t grant, bool generated,
                   uint32_t position, uint32_t count, uint32_t index);

void bench_remove(struct bench *b, uint64_t grant);
void bench_geometry(struct bench *b);
/* UINT32_MAX: no node, no checkpoint. */
void bench_restore(struct bench *b, uint64_t grant, uint32_t position,
                   uint32_t node, uint32_t checkpoint);
void bench_continue(struct bench *b, uint64_t grant, uint32_t position,
                    uint64_t from);
void bench_cut(struct bench *b, uint64_t grant, uint32_t position,
               uint32_t checkpoint);
void bench_keep(struct bench *b, uint64_t grant, uint32_t node, uint32_t parent,
                uint32_t end);
/* Sends Accept for one sequence. */
void bench_accept(struct bench *b, uint64_t grant, uint32_t count);
void bench_gone(struct bench *b, uint32_t node, uint32_t checkpoint);
/* Sends any message from the previous stage; then a turn. */
void bench_say(struct bench *b, enum method m, const ProtobufCMessage *message);

/* Returns x of token i of a Forward. */
float bench_x(uint64_t step, uint32_t token);

/* Checks that the assembly has ended, with an error that has this text. */
void bench_check_broken(struct bench *b, const char *text);
const struct bench_said *bench_last(const struct bench *b, enum method m);
struct worker_account bench_account(const struct bench *b);

#endif
