#include "tests/golden/runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void die(const char *what)
{
    fprintf(stderr, "runner: %s\n", what);
    abort();
}

static void *must(void *p)
{
    if (p == NULL) {
        die("no memory");
    }
    return p;
}

static uint32_t *numbers(uint32_t n, uint32_t order)
{
    uint32_t *p = must(calloc(n + 1, sizeof *p));
    uint64_t x = order;

    for (uint32_t i = 0; i < n; i++) {
        p[i] = n - 1 - i;
    }
    for (uint32_t i = 0; order && i < n; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        uint32_t j = (uint32_t)((x >> 33) % n), t = p[i];

        p[i] = p[j];
        p[j] = t;
    }
    return p;
}

static void tap_logits(void *ctx, struct kernels *k, uint32_t row, uint32_t i)
{
    const struct runner *r = ctx;

    if (r->logits[row]) {
        kernels_logits_read(k, i, r->logits[row]);
    }
}

static void tap_layer(void *ctx, struct kernels *k, uint32_t done,
                      uint32_t n_tokens)
{
    const struct runner *r = ctx;

    if (r->tap.layer) {
        r->tap.layer(r->tap.ctx, k, done, n_tokens);
    }
}

void runner_tap(struct runner *r, const struct forward_tap *tap)
{
    r->tap = *tap;
}

static bool has_kind(const struct shard_weights *w, enum mixer_kind kind)
{
    for (uint32_t i = 0; i < w->end - w->begin; i++) {
        if (w->layers[i].kind == kind) {
            return true;
        }
    }
    return false;
}

bool runner_pool(struct runner *r, uint32_t n_blocks, uint32_t n_slots,
                 struct error *e)
{
    if (forward_alloc(r->forward, n_blocks, n_slots, 1, e) != ST_OK) {
        return false;
    }
    free(r->plan.blocks);
    free(r->slots);
    free(r->blocks);
    r->n_blocks = n_blocks;
    r->n_slots = n_slots;
    r->blocks = numbers(n_blocks, r->order);
    r->slots = numbers(n_slots, r->order);
    r->plan.blocks = must(calloc(n_blocks + 1, sizeof *r->plan.blocks));
    return true;
}

void runner_open(struct runner *r, const struct shard_weights *w,
                 const struct kernels_options *o, uint32_t n_blocks,
                 uint32_t n_slots, uint32_t order)
{
    struct forward_tap tap = {
        .ctx = r, .layer = tap_layer, .logits = tap_logits};
    struct error e;

    memset(r, 0, sizeof *r);
    r->w = w;
    r->attention = has_kind(w, MIXER_ATTENTION);
    r->linear = has_kind(w, MIXER_DELTANET);
    r->block_tokens = o->block_tokens;
    if (forward_new(&r->forward, w, o, &e) != ST_OK ||
        forward_alloc_hidden(r->forward, ENGINE_DEPTH_MAX + 1,
                             RUNNER_STAGE_TOKENS, &e) != ST_OK) {
        die(e.text);
    }
    forward_set_tap(r->forward, &tap);
    r->order = order;
    if (!runner_pool(r, n_blocks, n_slots, &e)) {
        die(e.text);
    }
    r->logits = must(calloc(PLAN_ROWS_MAX, sizeof *r->logits));
    r->plan.rows = must(calloc(PLAN_ROWS_MAX, sizeof *r->plan.rows));
    r->plan.tokens = must(calloc(PLAN_TOKENS_MAX, sizeof *r->plan.tokens));
    r->plan.zero_slots =
        must(calloc(PLAN_ROWS_MAX, sizeof *r->plan.zero_slots));
}

void runner_close(struct runner *r)
{
    free(r->plan.zero_slots);
    free(r->plan.blocks);
    free(r->plan.tokens);
    free(r->plan.rows);
    free(r->logits);
    free(r->slots);
    free(r->blocks);
    forward_free(&r->forward);
}

void runner_start(struct runner *r, struct run_seq *s, const uint32_t *ids,
                  uint32_t n_prompt, uint32_t more)
{
    uint32_t capacity = n_prompt + more;

    *s = (struct run_seq){
        .n_ids = n_prompt,
        .n_prompt = n_prompt,
        .capacity = capacity,
        .fresh = true,
        .sampling = {.top_p = 1.0f, .repetition_penalty = 1.0f}};
    s->ids = must(calloc(capacity, sizeof *s->ids));
    memcpy(s->ids, ids, n_prompt * sizeof *ids);
    s->n_blocks = (capacity + r->block_tokens - 1) / r->block_tokens;
    s->blocks = must(calloc(s->n_blocks, sizeof *s->blocks));
    if (s->n_blocks > r->n_blocks || r->n_slots == 0) {
        die("pool is too small");
    }
    for (uint32_t i = 0; i < s->n_blocks; i++) {
        s->blocks[i] = r->blocks[--r->n_blocks];
    }
    s->slot = r->slots[--r->n_slots];
}

void runner_stop(struct runner *r, struct run_seq *s)
{
    for (uint32_t i = s->n_blocks; i > 0; i--) {
        r->blocks[r->n_blocks++] = s->blocks[i - 1];
    }
    r->slots[r->n_slots++] = s->slot;
    free(s->blocks);
    free(s->ids);
    memset(s, 0, sizeof *s);
}

void runner_skip(struct run_seq *s, uint32_t n)
{
    s->n_done = n;
    s->fresh = false;
}

/* Adds ids or, where hidden states take their place, ids that must not be
 * read. */
static void add_ids(struct runner *r, const struct run_seq *s, uint32_t n)
{
    uint32_t *to = r->plan.tokens + r->plan.n_tokens;

    for (uint32_t i = 0; i < n; i++) {
        to[i] = r->w->begin == 0 ? s->ids[s->n_done + i] : TOKEN_NONE;
    }
    r->plan.n_tokens += n;
}

/* A shard without attention has no table. */
static uint32_t add_table(struct runner *r, const struct run_seq *s, uint32_t n)
{
    struct plan *p = &r->plan;
    uint32_t table = (s->n_done + n + r->block_tokens - 1) / r->block_tokens;

    if (!r->attention) {
        return 0;
    }
    memcpy(p->blocks + p->n_blocks, s->blocks, table * sizeof *s->blocks);
    p->n_blocks += table;
    return table;
}

uint32_t runner_add(struct runner *r, struct run_seq *s, uint32_t n,
                    bool sample, float *logits)
{
    struct plan *p = &r->plan;
    bool last = r->w->end == r->w->shape.n_layers;

    if (s->n_done + n > s->n_ids || p->n_tokens + n > PLAN_TOKENS_MAX) {
        die("a row past the ids, or past a plan");
    }
    p->rows[p->n_rows] = (struct plan_row){
        .kind = s->n_done < s->n_prompt ? ROW_PROMPT : ROW_GENERATED,
        .position = s->n_done,
        .n_tokens = n,
        .token = p->n_tokens,
        .block = p->n_blocks,
        .slot = r->linear ? s->slot : SLOT_NONE,
        .sample = sample,
        .index = s->n_done + n - s->n_prompt,
        .sampling = last ? &s->sampling : NULL,
    };
    p->rows[p->n_rows].n_blocks = add_table(r, s, n);
    add_ids(r, s, n);
    if (s->fresh && r->linear) {
        p->zero_slots[p->n_zero++] = s->slot;
    }
    s->fresh = false;
    s->n_done += n;
    r->logits[p->n_rows] = logits;
    return p->n_rows++;
}

void runner_step(struct runner *r)
{
    forward_run(r->forward, &r->plan, &r->result);
    runner_done(r);
}

void runner_done(struct runner *r)
{
    if (r->result.status != ST_OK) {
        die(r->result.error.text);
    }
    r->plan.n_rows = 0;
    r->plan.n_tokens = 0;
    r->plan.n_blocks = 0;
    r->plan.n_zero = 0;
    r->plan.step++;
}

uint32_t runner_token(const struct runner *r, uint32_t row)
{
    return r->result.tokens[row];
}

void run_seq_push(struct run_seq *s, uint32_t id)
{
    if (s->n_ids == s->capacity) {
        die("a sequence past its room");
    }
    s->ids[s->n_ids++] = id;
}
