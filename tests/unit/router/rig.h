/* rig.h - a router among fakes: workers, clients and administrators that
 * speak real frames through common/wire/peer.h from the other side.
 *
 * Nothing sleeps: time moves by rig_advance(), and rig_run() carries frames
 * to and fro until nobody has anything to say.  A fake may be deaf (frames
 * to it are lost) or mute (frames from it are lost).
 *
 * A fake worker is honest until a test makes it lie: it accepts Submits,
 * charges them, answers removals, and repeats tokens until acknowledged. */
#ifndef TESTS_UNIT_ROUTER_RIG_H
#define TESTS_UNIT_ROUTER_RIG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/sampling/sampling.h"
#include "common/wire/peer.h"
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
#define RIG_TOKENS    32768 /* of a choice */
#define RIG_TEXT      16384
#define RIG_CHUNKS    4096
#define RIG_HELD      64
#define RIG_VOCAB     1000
#define RIG_CONTEXT   40000
#define RIG_BLOCK     32
#define RIG_LAYERS    12 /* of an offer */

struct rig;

/* A sequence at a fake worker. */
struct sequence {
    bool used, cancelled, finished;
    bool orphan; /* its session is over */
    uint8_t id[16];
    uint32_t choice;
    uint64_t grant, call;
    uint32_t blocks, slots, n_prompt, n_given, max_tokens, have_index;
    uint32_t n_ids, keep_ms; /* n_ids: that have come so far */
    uint32_t *ids;
    uint64_t seed;
    uint32_t n_tokens; /* generated so far, those given before included */
    uint32_t acked;
    uint32_t finish;
};

/* What came of a call; of choice 0, where the call has several. */
struct record {
    bool used, ended;
    uint64_t call;
    uint32_t n_replies;
    enum status status;
    char error[ERROR_TEXT];
    uint32_t retry_ms;
    /* of Generate */
    uint32_t n_tokens, tokens_size, *tokens;
    bool in_order;
    size_t n_text;
    char text[RIG_TEXT];
    Sluice__V1__Finish finish;
    Sluice__V1__GenerateFigures figures;
    char worker[80];
    struct record *others[CHOICES_MAX]; /* [c]: of choice c > 0, as it came */
    uint32_t n_chunks, chunks[RIG_CHUNKS]; /* the choice of each, in order */
    bool named; /* a chunk said of which choice it is */
    /* of Cancel and RemoveSequence */
    Sluice__V1__Receipt receipt;
    uint32_t n_stages, stage_blocks[64], stage_slots[64]; /* of the receipt */
    bool one; /* the receipt names a choice, which is in: */
    uint32_t choice;
    /* the last message of any other call, unpacked; freed by rig_free */
    ProtobufCMessage *reply;
};

struct fake {
    struct rig *rig;
    struct node_io io;
    struct peer_id id;
    uint8_t role;
    char name[80];
    uint64_t nonce;
    struct peer *peer;
    bool up, deaf, mute, gone; /* gone: it was told Goodbye */
    char goodbye[256];
    uint32_t n_hears; /* if not 0: it is deaf after so many frames more */
    bool refused;
    enum status refusal;
    char why[ERROR_TEXT];
    uint32_t retry_ms;
    uint64_t session;

    /* of a worker */
    Sluice__V1__WorkerShard shard;
    char model[128], device[32];
    uint8_t fingerprint[16], tokenizer[16];
    Sluice__V1__Ledger ledger;
    Sluice__V1__ClassLedger classes[4];
    struct sequence sequences[RIG_SEQUENCES];
    uint32_t n_submits, n_cancels, n_removes, n_acks, n_parts;
    bool survives;      /* what runs outlives the session */
    bool loses_orphans; /* and is not found */
    uint32_t n_adopts, n_disowned;
    uint32_t live_ms;    /* expires_ms of the rows it tells of */
    uint64_t last_grant; /* seen: grants must come without a gap */
    bool grants_in_order;
    bool hold_submits;  /* do not answer them */
    bool hold_receipts; /* do not answer removals */
    enum status refuse_submits;
    uint64_t step;
    struct held {
        uint64_t call;
        uint8_t id[16];
        uint32_t choice;
    } held[RIG_HELD];
    uint32_t n_held;
    uint32_t receipt_blocks; /* if not 0: what its receipts say */
    uint32_t last_ack_index;
    uint64_t last_ack_grant;
    Sluice__V1__CancelReason last_reason;
    uint32_t audit_differences;
    bool mute_audit, broken_audit; /* a ledger whose identity is broken */
    uint64_t audit_session;        /* 0: its own */
    const char *audit_text;        /* with differences, NULL: none */

    /* of a worker of some layers */
    char endpoint[80], next[80]; /* its own; where it was told to connect to */
    uint32_t n_assembles, stage, n_stages;
    uint32_t step_rows, step_tokens; /* of the assembly; 0: not said */
    uint64_t assembly, assemble_call;
    bool hold_assembles; /* do not answer them */
    enum status refuse_assembles;
    bool hold_opens;   /* what its leader opens waits for stage_opens() */
    bool hold_removes; /* what it removes for stage_removes() */
    struct sequence opens[RIG_SEQUENCES]; /* used: not a void one */
    uint32_t n_opens, n_voids;
    int receipt_stages; /* so many are in its receipts; 0: all, -1: none */

    /* of a worker without layers */
    bool offers; /* in Hello, instead of its shard */
    Sluice__V1__WorkerOffer offer;
    uint64_t layer_bytes[RIG_LAYERS], kv_bytes[RIG_LAYERS],
        slot_bytes[RIG_LAYERS];
    uint32_t n_assigns, begin, end; /* what it was given last */
    uint64_t assign_call;
    bool hold_assigns; /* do not answer them */
    enum status refuse_assigns;

    /* of a client */
    struct record *records[RIG_RECORDS];
    /* sees every chunk, too; NULL: nobody does */
    void (*on_chunk)(struct fake *f, const Sluice__V1__GenerateChunk *c);
};

struct rig {
    struct node_io io;
    struct router_core *router;
    int64_t now;
    uint64_t random;
    struct fake *fakes[RIG_FAKES];
    uint32_t n_fakes, last_id;
    uint8_t port; /* what node_io.port says */
    struct arena arena;
    bool stopped;
    uint64_t n_sent;
    uint64_t router_ns; /* spent in the router, for the bench */
    /* frames under way: to a fake, or (to == NULL) to the router */
    struct flying {
        struct fake *to, *from;
        struct frame *frame;
    } * flying;
    uint32_t n_flying, flying_size;
};

/* A text seam that a test holds: jobs are done when it says so.  With a
 * tokenizer it encodes and streams by it; without, a byte is a token. */
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
/* Forgets jobs that nobody polled. */
void fake_text_fini(struct fake_text *t);

struct rig_options {
    uint32_t max_peers, max_requests, max_waiting;
    struct text_seam *text;
    int64_t worker_wait_us, gather_us;
    bool headroom;
};

struct rig *rig_new(const struct rig_options *o); /* NULL: plenty */
void rig_free(struct rig **rig);

/* Nothing of anything is open, and no worker runs a thing; then free it. */
void rig_end(struct rig **rig);

void rig_run(struct rig *rig);
void rig_advance(struct rig *rig, int64_t us);

/* A fake that has not said Hello; change its fields, then fake_hello(). */
struct fake *fake_new(struct rig *rig, uint8_t role, const char *name);
struct fake *fake_worker_new(struct rig *rig, const char *name, uint32_t blocks,
                             uint32_t slots);
void fake_hello(struct fake *f);
/* Its connection breaks: the router is told. */
void fake_lost(struct fake *f);
/* It comes back on a new connection. */
void fake_reconnect(struct fake *f);
/* It was started again. */
void fake_restart(struct fake *f);

/* New and up. */
struct fake *rig_worker(struct rig *rig, const char *name, uint32_t blocks,
                        uint32_t slots);
struct fake *rig_client(struct rig *rig, const char *name);
struct fake *rig_admin(struct rig *rig, const char *name);

/* A worker of layers [begin, end) of 4 that has not said Hello; new and up. */
struct fake *fake_stage_new(struct rig *rig, const char *name, uint32_t begin,
                            uint32_t end);
struct fake *rig_stage(struct rig *rig, const char *name, uint32_t begin,
                       uint32_t end);
/* Without layers, it would take some of 12, each of 1000 bytes, and has a
 * budget for so many (RIG_LAYER_NEED each); it wants n_stages.  It has not said
 * Hello; new and up. */
#define RIG_LAYER_NEED (1000 + 64)
struct fake *fake_offer_new(struct rig *rig, const char *name,
                            uint32_t n_stages, uint32_t n_layers);
struct fake *rig_offer(struct rig *rig, const char *name, uint32_t n_stages,
                       uint32_t n_layers);
/* It says Goodbye, loads what it was given, and comes back with it. */
void offer_leave(struct fake *w);
void offer_load(struct fake *w);
/* Answer the Assign that was held. */
void offer_accept(struct fake *w);

/* Answer the Assemble that was held. */
void stage_assembled(struct fake *w);
/* It says that this assembly is over. */
void stage_broken(struct fake *w, uint64_t assembly, const char *why);

/* The same with another pool; and n of them, of a layer each but for the last,
 * w0.., up and assembled. */
struct fake *rig_stage_with(struct rig *rig, const char *name, uint32_t begin,
                            uint32_t end, uint32_t blocks, uint32_t slots);
void rig_replica(struct rig *rig, struct fake **w, uint32_t n);
/* What the router believes of a worker. */
struct router_worker_view fake_view(const struct fake *w);
/* What waits at a stage past the first. */
void stage_opens(struct fake *w);
void stage_removes(struct fake *w);

/* Workers. */
uint32_t fake_token(const uint8_t id[16], uint32_t index);
uint32_t choice_token(const uint8_t id[16], uint32_t choice, uint32_t index);
struct sequence *worker_sequence_of(struct fake *w, uint8_t id);
struct sequence *worker_choice_of(struct fake *w, uint8_t id, uint32_t choice);
void worker_report(struct fake *w);
/* Tell of all that lives there from a session before. */
void worker_live(struct fake *w, uint32_t expires_ms);
void worker_live_rows(struct fake *w, size_t bytes, size_t n_choice,
                      size_t n_generated, const uint8_t *ids,
                      const uint32_t *choice, const uint32_t *generated);
/* n more tokens for the sequence, then finish (0: none); not yet sent. */
void worker_make(struct fake *w, struct sequence *s, uint32_t n,
                 uint32_t finish);
/* Send all that is not acknowledged, with the ledger. */
void worker_step(struct fake *w);
/* The same with another ledger, of an earlier moment. */
void worker_step_with(struct fake *w, Sluice__V1__Ledger *l);
/* Both, of one choice, and what comes of it. */
void worker_give(struct fake *w, uint8_t id, uint32_t choice, uint32_t n,
                 uint32_t finish);
/* Any StepOutput: the ledger is filled in if it has none. */
void worker_say(struct fake *w, Sluice__V1__StepOutputMessage *m);
void worker_receipt(struct fake *w); /* the first that was held */
/* Take back what the sequence held. */
void worker_release(struct fake *w, struct sequence *s);

/* Clients.  The request_id is `id` 16 times. */
struct record *client_call(struct fake *c, enum method m,
                           const ProtobufCMessage *request,
                           uint32_t deadline_ms);
struct record *client_generate(struct fake *c, uint8_t id, uint32_t n_prompt,
                               uint32_t max_tokens);
struct record *client_generate_with(struct fake *c, uint8_t id,
                                    uint32_t n_prompt, uint32_t max_tokens,
                                    Sluice__V1__GenerateRequest *m,
                                    uint32_t deadline_ms);
struct record *client_generate_n(struct fake *c, uint8_t id, uint32_t n,
                                 uint32_t n_prompt, uint32_t max_tokens);
struct record *client_cancel(struct fake *c, uint8_t id);
struct record *client_remove(struct fake *c, uint8_t id);
/* Of one choice. */
struct record *client_cancel_choice(struct fake *c, uint8_t id,
                                    uint32_t choice);
struct record *client_remove_choice(struct fake *c, uint8_t id,
                                    uint32_t choice);
/* What came of choice c of the call, an empty record if nothing has. */
const struct record *record_choice(const struct record *x, uint32_t c);
/* The first n tokens of choice c, and no others, came in order. */
void record_check(const struct record *x, uint8_t id, uint32_t c, uint32_t n);
struct record *client_generate_text(struct fake *c, uint8_t id,
                                    const char *text, uint32_t max_tokens);
void client_give_up(struct fake *c, struct record *x);

/* What came of a call is forgotten, or of every call; else rig_free does. */
void record_free(struct record *x);
void fake_forget(struct fake *f);

/* Between the rig's own files.  Of a leader: a Submit makes an Open (of
 * nothing: a void one), what the others free of s, and that they do. */
void stages_open(struct fake *leader, const Sluice__V1__SubmitRequest *m,
                 bool nothing);
void stages_receipt(struct fake *leader, const struct sequence *s,
                    uint32_t *blocks, uint32_t *slots, Sluice__V1__Receipt *r);
void stages_release(struct fake *leader, const struct sequence *s);
void fake_stage_hears(struct fake *w, const struct method_row *m, uint64_t call,
                      const ProtobufCMessage *request);
void fake_worker_hears(struct fake *w, const struct method_row *m,
                       uint64_t call, const ProtobufCMessage *request);
void record_take(struct record *x, const struct method_row *m,
                 const ProtobufCMessage *reply);

enum choice_state rig_state(const struct rig *rig, uint8_t id);
enum choice_state rig_choice_state(const struct rig *rig, uint8_t id,
                                   uint32_t choice);

#endif
