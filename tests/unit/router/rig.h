/* rig.h - A router core with fake workers, clients and administrators, which
 * exchange real frames with it through common/wire/peer.h.
 *
 *     struct fake (peer) --frames--> rig->flying --> router_core
 *                        <----------             <--
 *
 * Nothing sleeps.  rig_advance() moves the time; rig_run() delivers frames in
 * both directions until none is left.  A fake may be deaf (frames to it are
 * lost) or mute (frames from it are lost).
 *
 * A fake worker follows the protocol until a test sets a field that breaks it:
 * it accepts Submits, charges them to its pool, answers removals, and repeats
 * tokens until they are acknowledged.  It asserts that each grant fits.
 *
 * Threading: none.  Memory: the rig owns all fakes and records; rig_free()
 * frees them.  Limits: the RIG_* constants. */
#ifndef TESTS_UNIT_ROUTER_RIG_H
#define TESTS_UNIT_ROUTER_RIG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/sampling/sampling.h"
#include "common/wire/peer.h"
#include "common/wire/prefix_hash.h"
#include "proto/admin.pb-c.h"
#include "proto/health.pb-c.h"
#include "proto/inference.pb-c.h"
#include "proto/registry.pb-c.h"
#include "proto/worker.pb-c.h"
#include "router/router_core.h"
#include "text/tokenizer.h"

#define RIG_FAKES     80
#define RIG_SEQUENCES 256
#define RIG_RECORDS   512
#define RIG_TOKENS    32768 /* per choice */
#define RIG_TEXT      16384
#define RIG_CHUNKS    4096
#define RIG_HELD      64
#define RIG_VOCAB     1000
#define RIG_CONTEXT   40000
#define RIG_BLOCK     32
#define RIG_LAYERS    12 /* layers of an offer's model */

struct rig;

/* A sequence at a fake worker. */
struct sequence {
    bool used, cancelled, finished;
    bool orphan; /* the session of its grant is over */
    uint8_t id[16];
    uint32_t choice;
    uint64_t grant, call;
    uint32_t blocks, slots, windows, n_prompt, n_given, max_tokens, have_index;
    uint32_t n_ids, keep_ms; /* n_ids: prompt ids received so far */
    uint32_t *ids;
    uint64_t seed;
    uint32_t draw_index, draw_choice;
    uint32_t n_tokens; /* generated, including those given with the Submit */
    uint32_t acked;
    uint32_t finish;
    uint32_t reused; /* positions that it restored */
    /* from its Submit */
    char tenant[80], salt[80]; /* "": none */
    bool grows;
    bool uncached, continues; /* continues: it took over a kept sequence */
    bool has_drafts, urgent;
    uint32_t drafts, deadline_ms;
    uint32_t n_spans, spans[SPANS_MAX];
};

/* The results of a call; for a call with several choices, those of choice 0. */
struct record {
    bool used, ended;
    uint64_t call;
    uint32_t n_replies;
    enum status status;
    char error[ERROR_TEXT];
    uint32_t retry_ms;
    /* results of Generate */
    uint32_t n_tokens, tokens_size, *tokens;
    bool in_order;
    size_t n_text;
    char text[RIG_TEXT];
    Sluice__V1__Finish finish;
    Sluice__V1__GenerateFigures figures;
    char worker[80];
    struct record *others[CHOICES_MAX];    /* [c]: results of choice c > 0 */
    uint32_t n_chunks, chunks[RIG_CHUNKS]; /* choice of each chunk, in order */
    bool named;                            /* a chunk had the choice field */
    /* results of Cancel and RemoveSequence */
    Sluice__V1__Receipt receipt;
    uint32_t n_stages, stage_blocks[64], stage_slots[64]; /* in receipt */
    uint32_t n_windows, stage_windows[64];
    bool one; /* the receipt has the choice field: */
    uint32_t choice;
    /* the last message of any other call, unpacked; freed by rig_free() */
    ProtobufCMessage *reply;
};

struct fake {
    struct rig *rig;
    struct node_io io;
    struct peer_id id;
    uint8_t role;
    char name[80];
    bool keyed; /* identity is what its key proves */
    struct identity identity;
    char your_name[80]; /* in HelloReply */
    uint32_t minor;     /* in its Hello, and in the reply */
    bool has_prefix_key;
    struct prefix_key prefix_key; /* in HelloReply */
    uint64_t nonce;
    struct peer *peer;
    bool up, deaf, mute, gone; /* gone: the router has sent it Goodbye */
    char goodbye[256];         /* the reason in the Goodbye */
    uint32_t n_hears; /* not 0: the fake is deaf after so many frames */
    bool refused;
    enum status refusal;
    char why[ERROR_TEXT];
    uint32_t retry_ms;
    uint64_t session;

    /* ---- a worker ---- */
    Sluice__V1__WorkerShard shard;
    char model[128], device[32];
    uint8_t fingerprint[16], tokenizer[16];
    Sluice__V1__Ledger ledger;
    /* Blocks, slots, checkpoints, pages, which fake_pages() fills in, and
     * window pages. */
    Sluice__V1__ClassLedger classes[5];
    bool own_pages; /* the test fills in the pages itself */
    struct sequence sequences[RIG_SEQUENCES];
    uint32_t n_submits, n_cancels, n_removes, n_acks, n_parts;
    bool survives;      /* sequences outlive the session */
    bool hides_growth;  /* its Live does not list which orphans grow */
    bool loses_orphans; /* Submit{adopt} does not find them */
    uint32_t n_adopts, n_disowned;
    uint32_t live_ms;    /* expires_ms of its Live messages */
    uint64_t last_grant; /* newest grant; grants must come without a gap */
    bool grants_in_order;
    bool hold_submits;  /* leave Submits unanswered */
    bool hold_receipts; /* leave removals unanswered, see held */
    enum status refuse_submits;
    uint64_t step;
    uint32_t device_us,
        n_prompt_tokens; /* in its next StepOutput; 0: not given */
    struct held {
        uint64_t call;
        uint8_t id[16];
        uint32_t choice;
    } held[RIG_HELD];
    uint32_t n_held;
    uint32_t receipt_blocks; /* not 0: the blocks in all its receipts */
    void (*spoil_receipt)(Sluice__V1__Receipt *r); /* NULL: none */
    uint32_t last_ack_index;
    uint64_t last_ack_grant;
    Sluice__V1__CancelReason last_reason;
    uint32_t n_continues;         /* Submits that named a kept sequence */
    enum status refuse_continues; /* the answer to them */
    uint32_t n_ranges, begin_of_range;
    bool hold_ranges;
    uint64_t range_call;        /* the one that is held */
    uint32_t range_position;    /* in receipts of ranges */
    uint32_t n_index_snapshots; /* requests for one */
    uint64_t index_next;        /* number of its next event */
    uint32_t audit_differences;
    bool mute_audit, broken_audit; /* broken: its ledger does not add up */
    uint64_t audit_session;        /* 0: the fake's own */
    const char *audit_text;        /* text of its differences; NULL: none */

    /* ---- a stage ---- */
    char endpoint[80], next[80]; /* its own; that of the next stage */
    bool has_keys;               /* Assemble named both keys */
    uint8_t next_key[KEY_BYTES], previous_key[KEY_BYTES];
    uint32_t n_assembles, stage, n_stages;
    uint32_t step_rows, step_tokens; /* step sizes in Assemble; 0: not given */
    uint64_t assembly, assemble_call;
    bool hold_assembles; /* leave Assembles unanswered */
    enum status refuse_assembles;
    bool hold_opens;   /* the leader's Opens wait for stage_opens() */
    bool hold_removes; /* its removals wait for stage_removes() */
    struct sequence opens[RIG_SEQUENCES]; /* used: not a void Open */
    uint32_t n_opens, n_voids;
    int receipt_stages; /* stages in its receipts; 0: all, -1: none */

    /* ---- a worker without layers ---- */
    bool offers; /* its Hello has the offer and no shard */
    Sluice__V1__WorkerOffer offer;
    uint64_t layer_bytes[RIG_LAYERS], kv_bytes[RIG_LAYERS],
        slot_bytes[RIG_LAYERS], window_bytes[RIG_LAYERS];
    uint32_t n_assigns, begin, end; /* begin, end: layers of the last Assign */
    uint64_t assign_call;
    bool hold_assigns; /* leave Assigns unanswered */
    enum status refuse_assigns;

    /* ---- a client ---- */
    struct record *records[RIG_RECORDS];
    /* called for every chunk; NULL: none */
    void (*on_chunk)(struct fake *f, const Sluice__V1__GenerateChunk *c);
};

struct rig {
    struct node_io io;
    struct router_core *router;
    int64_t now;
    uint64_t random;
    struct fake *fakes[RIG_FAKES];
    uint32_t n_fakes, last_id;
    uint8_t port; /* the result of node_io.port */
    struct arena arena;
    bool stopped;
    uint64_t n_sent;
    uint64_t router_ns; /* time spent in the router, for the bench */
    /* frames in flight: to a fake, or (to == NULL) to the router */
    struct flying {
        struct fake *to, *from;
        struct frame *frame;
    } * flying;
    uint32_t n_flying, flying_size;
};

/* A text seam under the test's control: hold delays all jobs.  With a
 * tokenizer, jobs and streams use it; without one, each byte is a token. */
#define RIG_JOBS 16
struct fake_text {
    struct text_seam seam;
    struct text_job *jobs[RIG_JOBS];
    uint32_t n_jobs;
    bool hold, full, no_model, fail;
    const struct tokenizer *tokenizer;
    const uint8_t *hash;
};

void fake_text_init(struct fake_text *t, const struct tokenizer *tokenizer);

/* Frees the jobs that were not polled. */
void fake_text_fini(struct fake_text *t);

struct rig_options {
    uint32_t max_peers, max_requests, max_waiting;
    uint32_t max_admins; /* 0: 16 */
    uint32_t kept;       /* --kept */
    uint32_t tenant_quota, retry_budget;
    struct text_seam *text;
    int64_t worker_wait_us, gather_us, queue_timeout_us;
    int64_t silent_us, lost_us, hung_us; /* 0: the defaults */
    bool headroom, keyed, mixed_arithmetic;
    bool expected;                      /* --admission */
    const struct named_number *weights; /* [n_weights] */
    const struct named_number *places;  /* [n_places] */
    uint32_t n_weights, n_places;
    size_t memory_bytes;
    struct recorder *recorder;
};

/* Creates a rig without fakes.  o = NULL: generous limits. */
struct rig *rig_new(const struct rig_options *o);

/* Frees a rig with all its fakes, and sets *rig to NULL. */
void rig_free(struct rig **rig);

/* Asserts that no request is open and no worker has a sequence, and frees the
 * rig. */
void rig_end(struct rig **rig);

/* Delivers frames and ticks the router until no frame is left. */
void rig_run(struct rig *rig);

/* Moves the time forward by us, with all timers in between, and delivers
 * frames. */
void rig_advance(struct rig *rig, int64_t us);

/* Creates a fake that has not sent Hello.  Change its fields, then call
 * fake_hello(). */
struct fake *fake_new(struct rig *rig, uint8_t role, const char *name);
struct fake *fake_worker_new(struct rig *rig, const char *name, uint32_t blocks,
                             uint32_t slots);
/* Sets the pages of a worker's ledger to the sums over its classes, which have
 * 1 page per unit unless the test sets other sizes.  Blocks and slots have thus
 * caps, and no class takes pages from another.  The functions that send the
 * ledger call it. */
void fake_pages(struct fake *w);
/* Gives w window layers: window blocks of that many pages, and so many pages of
 * its pool for them.  Call it before its Hello. */
void fake_windows(struct fake *w, uint32_t window_tokens, uint32_t chunk_tokens,
                  uint32_t window_pages, uint32_t total);
/* Gives f a key, for its next Hello. */
void fake_key(struct fake *f, const char *key, uint8_t roles);
/* Sends Hello on a new session. */
void fake_hello(struct fake *f);
/* Breaks the connection; the router is notified. */
void fake_lost(struct fake *f);
/* Sends Hello on a new connection, as the same life. */
void fake_reconnect(struct fake *f);
/* Sends Hello on a new connection, as a new life: the process was restarted. */
void fake_restart(struct fake *f);

/* Create a fake that is up. */
struct fake *rig_worker(struct rig *rig, const char *name, uint32_t blocks,
                        uint32_t slots);
struct fake *rig_client(struct rig *rig, const char *name);
struct fake *rig_admin(struct rig *rig, const char *name);

/* Create a worker with layers [begin, end) of 4: without a Hello, and up. */
struct fake *fake_stage_new(struct rig *rig, const char *name, uint32_t begin,
                            uint32_t end);
struct fake *rig_stage(struct rig *rig, const char *name, uint32_t begin,
                       uint32_t end);
/* Create a worker without layers: without a Hello, and up.  Its model has 12
 * layers of 1000 bytes and is to have n_stages stages; its budget holds
 * n_layers of them (RIG_LAYER_NEED each). */
#define RIG_LAYER_NEED (1000 + 128)
struct fake *fake_offer_new(struct rig *rig, const char *name,
                            uint32_t n_stages, uint32_t n_layers);
struct fake *rig_offer(struct rig *rig, const char *name, uint32_t n_stages,
                       uint32_t n_layers);
/* Sends Goodbye and does not come back. */
void offer_leave(struct fake *w);
/* Sends Goodbye, and comes back with the layers that it was assigned. */
void offer_load(struct fake *w);
/* Answers the Assign that was held with OK. */
void offer_accept(struct fake *w);

/* Answers the Assemble that was held with OK. */
void stage_assembled(struct fake *w);
/* Sends Broken for this assembly. */
void stage_broken(struct fake *w, uint64_t assembly, const char *why);

/* Creates a stage that is up, with this pool. */
struct fake *rig_stage_with(struct rig *rig, const char *name, uint32_t begin,
                            uint32_t end, uint32_t blocks, uint32_t slots);
/* Creates n stages w0.. that are up and assembled.  Each has one layer, and the
 * last one has the rest. */
void rig_replica(struct rig *rig, struct fake **w, uint32_t n);
/* Returns the router's account of a worker. */
struct router_worker_view fake_view(const struct fake *w);
/* Carries out the Opens, or the removals, that a later stage holds back. */
void stage_opens(struct fake *w);
void stage_removes(struct fake *w);

/* ---- workers ---- */

/* The token that a fake worker generates at an index. */
uint32_t fake_token(const uint8_t id[16], uint32_t index);
uint32_t choice_token(const uint8_t id[16], uint32_t choice, uint32_t index);
/* Find choice 0, or any choice, at w by the byte of its request_id; NULL: none.
 */
struct sequence *worker_sequence_of(struct fake *w, uint8_t id);
struct sequence *worker_choice_of(struct fake *w, uint8_t id, uint32_t choice);
/* Sends a Report with the ledger. */
void worker_report(struct fake *w);
/* Sends Live with all orphans of earlier sessions. */
void worker_live(struct fake *w, uint32_t expires_ms);
/* Sends Live with these columns, of any length. */
void worker_live_rows(struct fake *w, size_t bytes, size_t n_choice,
                      size_t n_generated, const uint8_t *ids,
                      const uint32_t *choice, const uint32_t *generated);
/* Generates n more tokens, then finish (0: none).  worker_step() sends them. */
void worker_make(struct fake *w, struct sequence *s, uint32_t n,
                 uint32_t finish);
/* Sends all tokens that are not acknowledged, with the ledger. */
void worker_step(struct fake *w);
/* Sends them with another ledger, such as an earlier one. */
void worker_step_with(struct fake *w, Sluice__V1__Ledger *l);
/* Makes and sends n tokens of one choice, and runs the rig. */
void worker_give(struct fake *w, uint8_t id, uint32_t choice, uint32_t n,
                 uint32_t finish);
/* Sends any StepOutput; fills in the ledger if m has none. */
void worker_say(struct fake *w, Sluice__V1__StepOutputMessage *m);
/* Answers the first removal that was held. */
void worker_receipt(struct fake *w);
/* Sends n events of the prefix index: the prefixes of 1, 2, .. units of the
 * prompt of client_generate() with this id appear, or go (tokens 0).  The first
 * is `skip` units deeper.  snapshot: the index was empty before. */
void worker_index(struct fake *w, uint8_t id, uint32_t skip, uint32_t n,
                  bool appear, bool snapshot);
/* Answers the range that was held. */
void worker_range(struct fake *w);
/* Returns the blocks and slots of the sequence to the pool. */
void worker_release(struct fake *w, struct sequence *s);

/* ---- clients ---- */

/* Calls of a client.  The request_id is the byte id, 16 times. */
struct record *client_call(struct fake *c, enum method m,
                           const ProtobufCMessage *request,
                           uint32_t deadline_ms);
struct record *client_generate(struct fake *c, uint8_t id, uint32_t n_prompt,
                               uint32_t max_tokens);
struct record *client_generate_with(struct fake *c, uint8_t id,
                                    uint32_t n_prompt, uint32_t max_tokens,
                                    Sluice__V1__GenerateRequest *m,
                                    uint32_t deadline_ms);
/* Continues choice 0 of request `kept`. */
struct record *client_continue(struct fake *c, uint8_t id, uint8_t kept,
                               uint32_t n_prompt, uint32_t max_tokens);
/* Removes the range from `begin` on of choice 0. */
struct record *client_range(struct fake *c, uint8_t id, uint32_t begin);
struct record *client_generate_n(struct fake *c, uint8_t id, uint32_t n,
                                 uint32_t n_prompt, uint32_t max_tokens);
struct record *client_cancel(struct fake *c, uint8_t id);
struct record *client_remove(struct fake *c, uint8_t id);
/* Cancel or remove one choice. */
struct record *client_cancel_choice(struct fake *c, uint8_t id,
                                    uint32_t choice);
struct record *client_remove_choice(struct fake *c, uint8_t id,
                                    uint32_t choice);
/* Returns the results of choice c of a call; an empty record if there are
 * none. */
const struct record *record_choice(const struct record *x, uint32_t c);
/* Asserts that exactly the first n tokens of choice c came, in order. */
void record_check(const struct record *x, uint8_t id, uint32_t c, uint32_t n);
struct record *client_generate_text(struct fake *c, uint8_t id,
                                    const char *text, uint32_t max_tokens);
/* Cancels the call itself, as a client that no longer waits does. */
void client_give_up(struct fake *c, struct record *x);

/* Free the record of one call, or of all calls of a fake; rig_free() frees the
 * rest. */
void record_free(struct record *x);
void fake_forget(struct fake *f);

/* ---- between the rig's own files ---- */

/* The columns of a receipt, which borrows them. */
struct stage_columns {
    uint32_t blocks[STAGES_MAX], slots[STAGES_MAX], windows[STAGES_MAX];
};

/* Pass a leader's Submit to its other stages as an Open (nothing: a void one),
 * add the stages' columns for s to a receipt, and free s at the stages. */
void stages_open(struct fake *leader, const Sluice__V1__SubmitRequest *m,
                 bool nothing);
void stages_receipt(struct fake *leader, const struct sequence *s,
                    struct stage_columns *columns, Sluice__V1__Receipt *r);
void stages_release(struct fake *leader, const struct sequence *s);
void fake_stage_hears(struct fake *w, const struct method_row *m, uint64_t call,
                      const ProtobufCMessage *request);
void fake_worker_hears(struct fake *w, const struct method_row *m,
                       uint64_t call, const ProtobufCMessage *request);
void record_take(struct record *x, const struct method_row *m,
                 const ProtobufCMessage *reply);

/* The router's state of choice 0 of a request, or of any choice. */
enum choice_state rig_state(const struct rig *rig, uint8_t id);
enum choice_state rig_choice_state(const struct rig *rig, uint8_t id,
                                   uint32_t choice);

#endif
