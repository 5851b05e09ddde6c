/* ring.h - The other stages of a replica, simulated for the leader on the bench
 * (rig.h): one end that the leader connects to, and one that connects to it,
 * with the sessions and greeters of a real stage.
 *
 * The leader's messages wait in one queue.  ring_step() handles the oldest one
 * at all stages: a Forward becomes a Result, a Remove goes round.  Every
 * message is checked: grants are in order without gaps, rows name open
 * sequences, positions have no gaps, at most n_stages microbatches are under
 * way, and ids are complete before the row that samples.  Each stage keeps the
 * accounts of a real one (ring_stages.h): what the leader sends always fits.
 *
 * The leader's engine puts the token that it would have sampled into the hidden
 * state of the row's last token, and of each draft; the stages read it from
 * there, with those that would follow (ring_drafts.c). */
#ifndef TESTS_UNIT_WORKER_RING_H
#define TESTS_UNIT_WORKER_RING_H

#include "common/wire/greeter.h"
#include "common/wire/session.h"
#include "proto/stage.pb-c.h"
#include "tests/unit/worker/rig.h"
#include "tests/unit/worker/stages/ring_stages.h"
#include "worker/stages/keeps.h"

/* Floats a token: the token behind it and those of twins, then the tokens that
 * would follow that. */
#define RING_TOKENS 4u
#define RING_HIDDEN (RING_TOKENS + DRAFTS_MAX)
#define RING_QUEUE  8192
#define RING_FRAMES 8192
#define RING_ROWS   16
#define RING_IDS    RIG_CONTEXT

/* A message from the leader. */
struct ring_said {
    enum method method;
    uint64_t grant; /* in Open, OpenPart, Remove */
    bool is_void;
    uint32_t n_ids; /* in Open, OpenPart */
    uint64_t step;  /* in Forward, with its rows */
    bool failed;
    uint32_t n_rows;
    uint64_t grants[RING_ROWS];
    uint32_t position[RING_ROWS], count[RING_ROWS], kind[RING_ROWS];
    uint32_t index[RING_ROWS], token[RING_ROWS];
    uint32_t n_saves, n_twins;
    struct ring_drafts {
        uint32_t n, n_accepted, ids[DRAFTS_MAX];
        uint32_t propose, n_proposed, proposals[DRAFTS_MAX];
    } drafts[RING_ROWS];
    /* In Restore: the position.  In Keep and Gone: nodes; in Gone also
     * checkpoints. */
    uint32_t at, n_nodes, n_checkpoints;
    bool has_node, has_checkpoint, has_from, cut; /* in Restore */
};

/* Changes a Result before it goes to the leader. */
struct ring_result;
typedef void (*ring_lie_fn)(struct ring_result *r);

/* The state of a grant at the stages. */
struct ring_grant {
    bool opened, is_void, removed;
    uint32_t blocks, slots,
        checkpoints; /* at the first stage after the leader */
    uint32_t n_prompt, n_generated, next; /* the position */
    uint32_t ids[RING_IDS], n_ids;        /* the first of them */
    bool penalises;
    uint32_t width; /* logprobs' state */
    bool restored;  /* next is where a Restore put it */
    bool continues; /* it took over another one */
    bool ignores_eos;
    uint32_t keep_at, n_kept; /* inputs of its row with drafts */
    uint32_t accepted;        /* in its Result; 0: it failed */
};

struct ring {
    struct rig *rig;
    uint32_t n_stages;
    struct node_io io;
    struct arena arena;
    struct greeter next;
    struct session before;
    struct peer *to_leader; /* the peer of `before`, when it is up */
    uint64_t assembly, random;
    struct peer_id next_id, before_id;
    bool next_opening, before_opening;

    struct {
        struct peer_id from;
        struct frame *frame;
    } to_worker[RING_FRAMES], from_worker[RING_FRAMES];
    uint32_t n_to_worker, n_from_worker;

    struct ring_said said[RING_QUEUE]; /* everything ever sent */
    uint32_t n_said, n_done;           /* microbatches that went round */
    uint32_t n_forwards, n_results, most_under_way;
    uint64_t first_open, last_open;
    struct ring_grant grants[RIG_GRANTS];
    const char *fail_next; /* error of the next Forward, at a stage */
    uint64_t fails_with;   /* every Forward with this grant fails; 0: none */
    uint64_t damaged;      /* rows of this grant have no finite logits */
    struct ring_stages *stages;
    bool no_geometry; /* it is not answered */
    bool has_runs;    /* prompts may have generated runs */
    /* Drafts. */
    uint32_t keep_tokens[STAGES_MAX]; /* [n_stages - 1] in Geometry */
    uint32_t n_keep_tokens;           /* stages that state it */
    bool proposes;
    struct keeps keeps;
    uint32_t n_draft_rows, n_accepted, n_refused; /* in all Forwards */
    uint32_t n_accepts;
};

/* Makes a leader of n stages on a bench, with its assembly up; o: NULL for
 * the defaults. */
struct rig *ring_rig(uint32_t n_stages, const struct worker_options *o);
/* The same with these pools, [n_stages - 1]; NULL: as the leader's. */
struct rig *ring_rig_with(uint32_t n_stages, const struct worker_options *o,
                          const struct mirror_stage *shapes);
void ring_options(struct worker_options *o);
/* Frees both. */
void ring_rig_free(struct rig **r);

/* Assembles the stages (again). */
void ring_assemble(struct ring *g);
/* Breaks the edge from the last stage. */
void ring_cut(struct ring *g);

/* Handles the leader's oldest message at all stages. Returns false if there
 * is none. */
bool ring_step(struct ring *g);
/* Steps until nothing is under way. */
void ring_run(struct ring *g);

/* Returns the n-th message ever sent; fails if there are fewer. */
const struct ring_said *ring_said(const struct ring *g, uint32_t n);
/* Returns the number of messages that wait. */
uint32_t ring_waiting(const struct ring *g);
/* Returns how many Removes of a grant were sent. */
uint32_t ring_removes(const struct ring *g, uint64_t grant);

/* Sends any message to the leader; then a turn. */
void ring_say(struct ring *g, enum method m, const ProtobufCMessage *message);

/* Lets the stages verify drafts, and propose them if mtp; before the assembly.
 * keep_tokens: at the last stage, and a few more at the others. */
void ring_drafts(struct ring *g, uint32_t keep_tokens, bool mtp);

/* The columns of a Result, which a test may change before sending. */
struct ring_result {
    Sluice__V1__StageResult m;
    uint32_t tokens[RING_ROWS], width[RING_ROWS], damaged[RING_ROWS];
    float logprobs[RING_ROWS * LOGPROB_VALUES_MAX * (DRAFTS_MAX + 1)];
    uint32_t top[RING_ROWS * LOGPROB_VALUES_MAX * (DRAFTS_MAX + 1)];
    uint32_t accepted[RING_ROWS], proposed[RING_ROWS];
    uint32_t proposals[RING_ROWS * DRAFTS_MAX];
    uint32_t device_us[16];
};

/* Makes the right Result for the oldest message, which is a Forward and
 * stays queued. */
void ring_result(const struct ring *g, struct ring_result *out);

/* Checks that every opened grant was removed exactly once. */
void ring_check_empty(const struct ring *g);

/* The same, and frees the rig. */
void ring_rig_end(struct rig **r);

/* Checks that the call of this tag ended with this status, and an error with
 * text. */
void ring_check_refused(const struct rig *r, uint64_t tag, enum status status,
                        const char *text);

/* ---- ring_drafts.c ---- */

/* Checks and takes the columns of drafts of a Forward. */
void ring_take_drafts(struct ring *g, struct ring_said *s,
                      const Sluice__V1__StageForward *m, const float *x);
void ring_take_accept(struct ring *g, const Sluice__V1__StageAccept *m);
/* Adds the columns of drafts of row i to a Result. */
void ring_add_drafts(const struct ring_said *s, uint32_t i, bool damaged,
                     struct ring_result *out);
/* The step fails: its rows accept nothing. */
void ring_fail_drafts(struct ring *g, const struct ring_said *s);
/* Fills what Geometry states. */
void ring_fill_keep_tokens(const struct ring *g,
                           Sluice__V1__StageGeometry *out);

/* ---- for the rig ---- */

struct peer_id ring_open_to(struct ring *g);
bool ring_has(const struct ring *g, struct peer_id id);
void ring_take(struct ring *g, struct peer_id to, struct frame *f);
void ring_close(struct ring *g, struct peer_id who);
bool ring_deliver(struct ring *g);
void ring_fill_stages(const struct ring *g, const Sluice__V1__Need *need,
                      uint32_t blocks, struct rig_stages *out);

#endif
