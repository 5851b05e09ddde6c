/* Rows with drafts against rows of single tokens, bit for bit.
 *
 * Each sequence runs twice on one backend, in pages of its own: "plain", one
 * token at a time and alone, and "drafted", in batches of rows with and without
 * drafts, some of them wrong.  Outputs, logits, slots and the MTP layer must
 * have the same bits at every position.  All pages that nothing has written,
 * and all kept inputs of older steps, are NaN.  See test_device.h. */
#include <stdlib.h>
#include <string.h>

#include "kernels/backends/backend.h"
#include "tests/kernels/opencl_shape.h"
#include "tests/kernels/random_model.h"
#include "tests/kernels/test_device.h"
#include "tests/unit/cmocka.h"

#define SEQS   4
#define LENGTH 36 /* tokens of a sequence, and one that follows them */
#define PROMPT 24 /* at most */
#define DRAFTS 8
#define KEEP   (SEQS * (DRAFTS + 4)) /* a multiple of DRAFTS */
#define TOKENS (SEQS * (DRAFTS + 1 + PROMPT))
#define BLOCK  4
#define BLOCKS ((LENGTH + 2 * DRAFTS) / BLOCK) /* no multiple of 7 */
#define TABLES 4 /* most pages of a window block */
#define SPARE  (2 * SEQS)
#define SLOTS  (SPARE + 1)

#define TUNED 2 /* rounds from here on are for NVIDIA's devices */

/* Sanitizers are slow. */
#ifdef __SANITIZE_ADDRESS__
#define ROUNDS 4
#else
#define ROUNDS 12
#endif

/* A sequence in one of its two runs. */
struct pages {
    uint32_t slot;
    uint32_t blocks[BLOCKS];
    uint32_t windows[TABLES][BLOCKS];
};

/* The results of a position. */
struct result {
    float *x, *mtp;       /* [H] after the last layer and the MTP layer */
    float *logits, *next; /* [V] of the model and of the MTP layer */
    char *slot;           /* the state and tail of all layers after it */
};

struct seq {
    uint32_t ids[LENGTH + 1];
    uint32_t n_prompt, at; /* at: the next position of the drafted run */
    struct pages plain, drafted;
    struct result of[LENGTH]; /* of the plain run */
};

struct rig {
    struct dice d;
    struct random_model model;
    struct kernels *k;
    struct kernels_options o;
    struct kernels_sizes sizes;
    uint32_t n_layers;
    size_t h, v, state_bytes, tail_bytes, slot_bytes;
    struct seq seqs[SEQS];
    char *slot; /* [slot_bytes] */
};

/* The generic one is slow. */
static const char *const sets[] = {NULL,   "generic", "avx2", "avx512",
                                   "avx2", "avx512",  NULL,   NULL};

/* ---- models ---- */

static bool is_linear(const struct rig *g, uint32_t layer)
{
    return g->model.w.layers[layer].kind == MIXER_DELTANET;
}

/* Draws a hybrid model with an MTP layer, and with more features in odd
 * rounds. */
static void draw_model(struct rig *g, uint32_t round)
{
    struct random_shape r;

    g->d.state = round + 77;
    random_shape(&r, &g->d);
    r.shape.n_layers = 3 + round % 2;
    r.shape.n_k_heads = 1 + round % 2;
    r.shape.n_v_heads = r.shape.n_k_heads * (1 + round / 2 % 3);
    for (uint32_t i = 0; i < r.shape.n_layers; i++) {
        r.mixers[i] = i == 1 ? MIXER_ATTENTION : MIXER_DELTANET;
    }
    if (round % 2) {
        random_features(&r, &g->d);
        r.mixers[3] = MIXER_WINDOW;
    }
    r.mtp = round % 4 < 3;
    r.ffns[r.shape.n_layers] = round % 4 == 1 ? FFN_EXPERTS : FFN_DENSE;
    if (round % 4 == 1) {
        r.mixers[1] = MIXER_ATTENTION;
    }
    g->o.kv = random_kv_format(round, &r.shape);
    g->o.kv.whole = round % 4 == 2 ? 1 : KV_NO_LAYER;
    if (!test_device_is_cpu() && round >= TUNED) {
        r = opencl_tuned_shape(round > TUNED);
        g->o.kv = kv_format_plain(DTYPE_BF16);
    }
    random_model_new(&g->model, &r, &g->d);
    g->n_layers = r.shape.n_layers;
    g->h = r.shape.hidden;
    g->v = r.shape.vocab;
}

static void *zeros(size_t bytes)
{
    void *p = calloc(1, bytes + 1);

    assert_non_null(p);
    return p;
}

/* Deals pages in an order that is not that of the positions. */
static void deal_pages(struct rig *g, struct pages *p, uint32_t n)
{
    uint32_t page = SLOTS * g->sizes.pages_per_slot +
                    n * BLOCKS * (1 + g->sizes.window_pages);

    p->slot = n * g->sizes.pages_per_slot;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        p->blocks[i] = page + i * 7 % BLOCKS;
        for (uint32_t t = 0; t < g->sizes.window_pages; t++) {
            p->windows[t][i] = page + (t + 1) * BLOCKS + i;
        }
    }
}

static void open_seq(struct rig *g, uint32_t i)
{
    struct seq *s = &g->seqs[i];

    memset(s, 0, sizeof *s);
    s->n_prompt = 1 + dice_below(&g->d, PROMPT);
    for (uint32_t p = 0; p <= LENGTH; p++) {
        s->ids[p] = dice_below(&g->d, (uint32_t)g->v);
    }
    deal_pages(g, &s->plain, i);
    deal_pages(g, &s->drafted, SEQS + i);
    kernels_zero_slot(g->k, s->plain.slot);
    kernels_zero_slot(g->k, s->drafted.slot);
    for (uint32_t p = 0; p < LENGTH; p++) {
        s->of[p].x = zeros(g->h * sizeof(float));
        s->of[p].mtp = zeros(g->h * sizeof(float));
        s->of[p].logits = zeros(g->v * sizeof(float));
        s->of[p].next = zeros(g->v * sizeof(float));
        s->of[p].slot = zeros(g->slot_bytes);
    }
}

static void open_seqs(struct rig *g)
{
    const struct model_shape *s = &g->model.w.shape;
    uint32_t pages;
    struct error e = {0};

    kernels_sizes(g->k, &g->sizes);
    assert_true(g->sizes.window_pages <= TABLES);
    g->state_bytes = (size_t)s->n_v_heads * s->k_dim * s->v_dim * sizeof(float);
    g->tail_bytes =
        ((size_t)2 * s->n_k_heads * s->k_dim + s->n_v_heads * s->v_dim) *
        (s->conv - 1) * dtype_bytes(g->o.kv.dtype);
    g->slot_bytes = g->n_layers * (g->state_bytes + g->tail_bytes);
    g->slot = zeros(g->slot_bytes);
    pages = SLOTS * g->sizes.pages_per_slot +
            SLOTS * BLOCKS * (1 + g->sizes.window_pages);
    if (kernels_alloc(g->k, pages, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    kernels_poison_pages(g->k, 0, pages);
    for (uint32_t i = 0; i < SEQS; i++) {
        open_seq(g, i);
    }
}

/* Returns false if the processor lacks the instruction set. */
static bool open_rig(struct rig *g, uint32_t round)
{
    struct error e = {0};
    enum status st;

    memset(g, 0, sizeof *g);
    draw_model(g, round);
    g->o.device = test_device();
    g->o.block_tokens = BLOCK;
    g->o.max_tokens = KEEP > TOKENS ? KEEP : TOKENS;
    g->o.max_logits = TOKENS;
    g->o.keep_tokens = KEEP;
    g->o.n_threads = 1 + round % 2;
    g->o.isa = test_device_is_cpu() ? sets[round / 2 % 8] : NULL;
    st = backend_new(&g->k, &g->model.w, &g->o, &e);
    if (st == ST_UNIMPLEMENTED && g->o.isa != NULL) {
        random_model_free(&g->model);
        return false;
    }
    if (st != ST_OK) {
        fail_msg("%s", e.text);
    }
    open_seqs(g);
    return true;
}

static void close_rig(struct rig *g)
{
    for (uint32_t i = 0; i < SEQS; i++) {
        for (uint32_t p = 0; p < LENGTH; p++) {
            free(g->seqs[i].of[p].x);
            free(g->seqs[i].of[p].mtp);
            free(g->seqs[i].of[p].logits);
            free(g->seqs[i].of[p].next);
            free(g->seqs[i].of[p].slot);
        }
    }
    free(g->slot);
    kernels_free(&g->k);
    random_model_free(&g->model);
}

/* ---- steps ---- */

/* Reads a slot, all layers, into g->slot. */
static const char *read_slot(struct rig *g, uint32_t slot)
{
    char *at = g->slot;

    for (uint32_t l = 0; l < g->n_layers; l++) {
        if (is_linear(g, l)) {
            kernels_slot_copy(
                g->k, l, slot,
                (void *[MIXER_PARTS_MAX]){at, at + g->state_bytes}, false);
        }
        at += g->state_bytes + g->tail_bytes;
    }
    return g->slot;
}

static struct kernel_row row_of(const struct pages *p, uint32_t position,
                                uint32_t n, bool generated)
{
    return (struct kernel_row){.n_tokens = n,
                               .position = position,
                               .blocks = p->blocks,
                               .window = p->windows[0],
                               .window_stride = BLOCKS,
                               .slot = p->slot,
                               .generated = generated};
}

/* Numbers the tokens of the rows one after another. */
static struct kernel_step step_of(struct kernel_row *rows, uint32_t n)
{
    struct kernel_step step = {rows, n, 0};

    for (uint32_t i = 0; i < n; i++) {
        rows[i].first = step.n_tokens;
        step.n_tokens += rows[i].n_tokens;
    }
    return step;
}

static void end_step(struct rig *g)
{
    struct error e = {0};

    if (kernels_end(g->k, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
}

/* Takes the logits of all tokens of the step. */
static void run_head(struct rig *g, const struct kernel_step *step)
{
    uint32_t all[TOKENS];

    for (uint32_t i = 0; i < step->n_tokens; i++) {
        all[i] = i;
    }
    kernels_head(g->k, all, step->n_tokens);
}

/* Begins a step and runs all layers, and the head. */
static void run_model(struct rig *g, const struct kernel_step *step,
                      const uint32_t *ids)
{
    kernels_begin(g->k, step);
    kernels_embed(g->k, ids);
    for (uint32_t l = 0; l < g->n_layers; l++) {
        if (is_linear(g, l)) {
            kernels_mixer(g->k, l);
        } else {
            kernels_mixer(g->k, l);
        }
        kernels_ffn(g->k, l);
    }
    if (g->model.w.mtp != NULL) {
        kernels_keep_hidden(g->k);
    }
    run_head(g, step);
}

static void run_mtp(struct rig *g, const struct kernel_step *step,
                    const uint32_t *ids, const uint32_t *from)
{
    kernels_begin(g->k, step);
    kernels_draft_input(g->k, ids, from);
    kernels_mixer(g->k, g->n_layers);
    kernels_ffn(g->k, g->n_layers);
    kernels_keep_hidden(g->k);
    run_head(g, step);
}

static void read_token(struct rig *g, uint32_t t, float *x, float *logits)
{
    kernels_hidden_read(g->k, t, 1, x);
    kernels_logits_read(g->k, t, logits);
}

/* Fails unless token t has these bits. */
static void same_token(struct rig *g, uint32_t t, const float *x,
                       const float *logits)
{
    float *got_x = zeros(g->h * sizeof *x);
    float *got = zeros(g->v * sizeof *got);

    read_token(g, t, got_x, got);
    assert_memory_equal(got_x, x, g->h * sizeof *x);
    assert_memory_equal(got, logits, g->v * sizeof *got);
    free(got_x);
    free(got);
}

/* Makes all kept inputs NaN, by rows of NaN that keep them all. */
static void poison_kept(struct rig *g)
{
    struct kernel_row rows[KEEP / DRAFTS];
    static uint32_t blocks[LENGTH + KEEP];
    float *x = malloc(KEEP * g->h * sizeof *x);

    assert_non_null(x);
    memset(x, 0xff, KEEP * g->h * sizeof *x);
    for (uint32_t i = 0; i < KEEP / DRAFTS; i++) {
        rows[i] = row_of(&g->seqs[0].plain, 0, DRAFTS, true);
        rows[i].slot = i * g->sizes.pages_per_slot;
        rows[i].keep = true;
        rows[i].keep_at = i * DRAFTS;
        rows[i].blocks = rows[i].window = blocks; /* begin copies them */
    }
    const struct kernel_step step = step_of(rows, KEEP / DRAFTS);
    kernels_begin(g->k, &step);
    for (uint32_t l = 0; l < g->n_layers; l++) {
        kernels_hidden_write(g->k, 0, KEEP, x);
        if (is_linear(g, l)) {
            kernels_mixer(g->k, l);
        }
    }
    end_step(g);
    free(x);
}

/* ---- the plain run ---- */

/* Runs positions [at, at + n) of a sequence as one row, and notes them. */
static void note(struct rig *g, struct seq *s, uint32_t at, uint32_t n)
{
    struct kernel_row row = row_of(&s->plain, at, n, at > 0);
    const struct kernel_step step = step_of(&row, 1);
    uint32_t from[LENGTH];

    run_model(g, &step, s->ids + at);
    for (uint32_t i = 0; i < n; i++) {
        read_token(g, i, s->of[at + i].x, s->of[at + i].logits);
        from[i] = i;
    }
    end_step(g);
    memcpy(s->of[at + n - 1].slot, read_slot(g, s->plain.slot), g->slot_bytes);
    if (g->model.w.mtp == NULL) {
        return;
    }
    run_mtp(g, &step, s->ids + at + 1, from);
    for (uint32_t i = 0; i < n; i++) {
        read_token(g, i, s->of[at + i].mtp, s->of[at + i].next);
    }
    end_step(g);
}

static void run_plain(struct rig *g, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct seq *s = &g->seqs[i];

        note(g, s, 0, s->n_prompt);
        for (uint32_t p = s->n_prompt; p < LENGTH; p++) {
            note(g, s, p, 1);
        }
    }
}

/* ---- the drafted run ---- */

/* One row of a step of the drafted run. */
struct turn {
    struct seq *s;
    uint32_t n_right;  /* tokens of the row that are those of the sequence */
    uint32_t accepted; /* at least 1, at most n_right */
    uint32_t first;    /* of the main step's tokens */
};

struct turns {
    struct turn of[SEQS];
    struct kernel_row rows[SEQS];
    uint32_t n;
    uint32_t ids[TOKENS];
};

static uint32_t wrong_id(struct rig *g, uint32_t id)
{
    uint32_t v = (uint32_t)g->v;

    return (id + 1 + dice_below(&g->d, v - 1)) % v;
}

/* Gives a row drafts, of which the first are right. */
static void draw_drafts(struct rig *g, struct turn *t, struct kernel_row *row)
{
    uint32_t left = LENGTH - t->s->at;
    uint32_t n = 1 + dice_below(&g->d, DRAFTS + 1);

    row->n_tokens = n < left ? n : left;
    row->keep = true;
    t->n_right = 1 + dice_below(&g->d, row->n_tokens);
    if (dice_below(&g->d, 4) == 0) {
        t->n_right = row->n_tokens;
    }
    t->accepted = t->n_right;
    if (dice_below(&g->d, 4) == 0) { /* as an end token does */
        t->accepted = 1 + dice_below(&g->d, t->n_right);
    }
}

static void draw_turn(struct rig *g, struct turns *t, uint32_t i)
{
    struct seq *s = &g->seqs[i];
    struct turn *turn = &t->of[t->n];
    struct kernel_row *row = &t->rows[t->n];

    if (s->at == LENGTH || dice_below(&g->d, 4) == 0) {
        return;
    }
    *row = row_of(&s->drafted, s->at, 1, s->at > 0);
    *turn = (struct turn){.s = s, .n_right = 1, .accepted = 1};
    if (s->at == 0) {
        row->n_tokens = turn->n_right = turn->accepted = s->n_prompt;
    } else if (dice_below(&g->d, 4) > 0) {
        draw_drafts(g, turn, row);
        row->keep_at = i * (DRAFTS + 4) + dice_below(&g->d, 4);
    }
    t->n++;
}

/* Draws rows, in any order of the sequences. */
static struct kernel_step draw_turns(struct rig *g, struct turns *t)
{
    uint32_t at = dice_below(&g->d, SEQS);
    struct kernel_step step;

    t->n = 0;
    for (uint32_t i = 0; i < SEQS; i++) {
        draw_turn(g, t, (at + i) % SEQS);
    }
    step = step_of(t->rows, t->n);
    for (uint32_t i = 0; i < t->n; i++) {
        const struct turn *turn = &t->of[i];

        t->of[i].first = t->rows[i].first;
        for (uint32_t j = 0; j < t->rows[i].n_tokens; j++) {
            uint32_t id = turn->s->ids[turn->s->at + j];

            t->ids[turn->first + j] = j < turn->n_right ? id : wrong_id(g, id);
        }
    }
    return step;
}

static void same_slot(struct rig *g, const struct seq *s, uint32_t position)
{
    assert_memory_equal(read_slot(g, s->drafted.slot), s->of[position].slot,
                        g->slot_bytes);
}

/* Checks the outputs of a step, and advances the slots that it left.  Without
 * `look`, the replays may wait for the next step. */
static void judge_step(struct rig *g, struct turns *t, bool look)
{
    struct kernel_replay replays[SEQS];
    uint32_t n = 0;

    for (uint32_t i = 0; i < t->n; i++) {
        const struct turn *turn = &t->of[i];
        const struct kernel_row *row = &t->rows[i];

        for (uint32_t j = 0; j < turn->n_right; j++) {
            const struct result *r = &turn->s->of[turn->s->at + j];

            same_token(g, turn->first + j, r->x, r->logits);
        }
        if (row->keep) {
            replays[n++] =
                (struct kernel_replay){row->slot, row->keep_at, turn->accepted};
        }
    }
    end_step(g);
    for (uint32_t i = 0; i < t->n; i++) {
        if (look && t->rows[i].keep) {
            same_slot(g, t->of[i].s, t->of[i].s->at - 1);
        }
    }
    kernels_replay(g->k, replays, n);
    for (uint32_t i = 0; i < t->n; i++) {
        t->of[i].s->at += t->of[i].accepted;
        if (look) {
            same_slot(g, t->of[i].s, t->of[i].s->at - 1);
        }
    }
}

/* Runs the MTP layer over the accepted positions, rows in another order than
 * in the step, and one token further for a second draft, whose KV must leave no
 * trace. */
static void draft(struct rig *g, struct turns *t)
{
    struct kernel_row rows[SEQS], more[SEQS];
    uint32_t ids[TOKENS], from[TOKENS], last[SEQS], any[SEQS];
    struct kernel_step step;

    for (uint32_t i = 0; i < t->n; i++) {
        const struct turn *turn = &t->of[t->n - 1 - i];
        uint32_t at = turn->s->at - turn->accepted;

        rows[i] = row_of(&turn->s->drafted, at, turn->accepted, at > 0);
        more[i] = row_of(&turn->s->drafted, turn->s->at, 1, true);
        rows[i].window = more[i].window = NULL; /* are not read */
    }
    step = step_of(rows, t->n);
    for (uint32_t i = 0; i < t->n; i++) {
        for (uint32_t j = 0; j < rows[i].n_tokens; j++) {
            ids[rows[i].first + j] =
                t->of[t->n - 1 - i].s->ids[rows[i].position + j + 1];
            from[rows[i].first + j] = t->of[t->n - 1 - i].first + j;
        }
        last[i] = rows[i].first + rows[i].n_tokens - 1;
        any[i] = wrong_id(g, ids[last[i]]);
    }
    run_mtp(g, &step, ids, from);
    for (uint32_t i = 0; i < t->n; i++) {
        for (uint32_t j = 0; j < rows[i].n_tokens; j++) {
            const struct result *r =
                &t->of[t->n - 1 - i].s->of[rows[i].position + j];

            same_token(g, rows[i].first + j, r->mtp, r->next);
        }
    }
    end_step(g);
    step = step_of(more, t->n);
    run_mtp(g, &step, any, last);
    end_step(g);
}

static bool is_done(const struct rig *g)
{
    for (uint32_t i = 0; i < SEQS; i++) {
        if (g->seqs[i].at < LENGTH) {
            return false;
        }
    }
    return true;
}

/* Returns whether to read slots after a step: now and then, and where it may be
 * the last of a sequence. */
static bool looks(struct rig *g)
{
    bool last = false;

    for (uint32_t i = 0; i < SEQS; i++) {
        last = last || g->seqs[i].at + DRAFTS >= LENGTH;
    }
    return last || dice_below(&g->d, 4) == 0;
}

static void run_drafted(struct rig *g)
{
    struct turns t;

    while (!is_done(g)) {
        const struct kernel_step step = draw_turns(g, &t);

        if (t.n > 0) {
            if (dice_below(&g->d, 3) == 0) {
                poison_kept(g);
            }
            run_model(g, &step, t.ids);
            judge_step(g, &t, looks(g));
        }
        if (t.n > 0 && g->model.w.mtp != NULL) {
            draft(g, &t);
        }
    }
}

/* ---- tests ---- */

static uint32_t rounds(void)
{
    return test_device_is_cpu() ? ROUNDS : TUNED + 2u * test_device_is_nvidia();
}

/* In batches with plain rows and prompts, right and wrong drafts. */
static void rows_with_drafts_equal_single_tokens(void **state)
{
    struct rig *g = malloc(sizeof *g);

    (void)state;
    assert_non_null(g);
    for (uint32_t round = 0; round < rounds(); round++) {
        if (open_rig(g, round)) {
            run_plain(g, SEQS);
            run_drafted(g);
            close_rig(g);
        }
    }
    free(g);
}

/* Runs n tokens of a sequence from `at` on as one row that keeps them. */
static void run_kept(struct rig *g, const struct seq *s, uint32_t at,
                     uint32_t n, uint32_t keep_at)
{
    struct kernel_row row = row_of(&s->drafted, at, n, true);
    const struct kernel_step step = step_of(&row, 1);

    row.keep = true;
    row.keep_at = keep_at;
    run_model(g, &step, s->ids + at);
    end_step(g);
}

/* Replays each number of the tokens of one row, from the same slot. */
static void check_counts(struct rig *g, struct seq *s)
{
    uint32_t pages = g->sizes.pages_per_slot;
    uint32_t spare = SPARE * pages, slot = s->drafted.slot;

    for (uint32_t n = 1; n <= DRAFTS + 1; n++) {
        uint32_t at = s->n_prompt + n;

        poison_kept(g);
        kernels_copy_pages(g->k, spare, slot, pages);
        run_kept(g, s, s->n_prompt, n, 2 * n);
        for (uint32_t i = 0; i < n; i++) {
            const struct kernel_replay r = {slot, 2 * n, i + 1};

            kernels_copy_pages(g->k, spare, slot, pages);
            same_slot(g, s, s->n_prompt - 1);
            kernels_replay(g->k, &r, 1);
            same_slot(g, s, s->n_prompt + i);
        }
        same_slot(g, s, at - 1);
    }
}

static void replay_of_any_count_equals_single_tokens(void **state)
{
    struct rig *g = malloc(sizeof *g);

    (void)state;
    assert_non_null(g);
    for (uint32_t round = 0; round < (rounds() + 1) / 2; round++) {
        struct seq *s = &g->seqs[0];
        struct kernel_row row;
        struct kernel_step step;

        if (!open_rig(g, round)) {
            continue;
        }
        run_plain(g, 1);
        row = row_of(&s->drafted, 0, s->n_prompt, false);
        step = step_of(&row, 1);
        run_model(g, &step, s->ids);
        end_step(g);
        kernels_copy_pages(g->k, s->drafted.slot,
                           SPARE * g->sizes.pages_per_slot,
                           g->sizes.pages_per_slot);
        check_counts(g, s);
        close_rig(g);
    }
    free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_with_drafts_equal_single_tokens),
        cmocka_unit_test(replay_of_any_count_equals_single_tokens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
