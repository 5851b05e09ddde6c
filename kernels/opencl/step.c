#include "kernels/opencl/step.h"

#include <assert.h>
#include <string.h>

#include "kernels/opencl/chain.h"
#include "kernels/opencl/deltanet.h"
#include "kernels/opencl/draft.h"
#include "kernels/opencl/host/copies.h"
#include "kernels/opencl/host/memory.h"
#include "kernels/opencl/rows.h"

_Static_assert(KERNELS_KEEP_MAX == DRAFTS_MAX + 1, "a token and drafts");

/* Ints of a step with block tables for whole contexts: 1 GiB. */
#define META_INTS_MAX ((uint64_t)1 << 28)

static uint32_t blocks_of(const struct opencl *c, uint32_t tokens)
{
    return c->sizes.pages_per_block == 0
               ? 0
               : (tokens + c->block_tokens - 1) / c->block_tokens;
}

/* Returns the most ints of the window tables of a step. */
static uint64_t window_ints(const struct opencl *c)
{
    const struct kernels_sizes *s = &c->sizes;
    const uint32_t window = c->w->shape.window;
    /* n positions have up to 1 + ceil((n - 1) / block_tokens) blocks; the
     * n_tokens of all rows are max_tokens at most. */
    const uint64_t blocks =
        (uint64_t)s->max_rows * (window / c->block_tokens + 3) +
        s->max_tokens / c->block_tokens;

    return s->window_pages == 0
               ? 0
               : blocks * s->window_pages +
                     (uint64_t)s->max_rows * OPENCL_WINDOW_INTS;
}

/* The offsets are the same in every step: they are defines of the kernels. */
bool opencl_step_layout(struct opencl *c)
{
    const struct kernels_sizes *s = &c->sizes;
    uint64_t tables;

    c->meta.tokens = s->max_rows * OPENCL_ROW_INTS;
    c->meta.ids = c->meta.tokens + s->max_tokens * OPENCL_TOKEN_INTS;
    c->meta.from = c->meta.ids + s->max_tokens;
    c->meta.heads = c->meta.from + (c->w->mtp != NULL ? s->max_tokens : 0);
    c->meta.blocks = c->meta.heads + s->max_logits;
    tables = (uint64_t)s->max_rows * (blocks_of(c, c->w->shape.context) +
                                      KERNELS_SAVES_MAX * OPENCL_SAVE_INTS) +
             window_ints(c);
    c->meta.ints = c->meta.blocks + (uint32_t)tables;
    return c->meta.blocks + tables <= META_INTS_MAX;
}

/* ---- begin ---- */

/* The row's saves are behind its `blocks` blocks. */
static void write_row(struct opencl *c, uint32_t at, const struct kernel_row *r,
                      uint32_t first_block, uint32_t blocks)
{
    int32_t *out = c->meta.host + (size_t)at * OPENCL_ROW_INTS;

    out[0] = (int32_t)r->first;
    out[1] = (int32_t)r->n_tokens;
    out[2] = (int32_t)r->position;
    out[3] = (int32_t)r->slot;
    out[4] = (int32_t)first_block;
    out[5] = r->keep ? (int32_t)(1 + r->keep_at) : 0;
    out[6] = (int32_t)r->n_saves;
    out[7] = (int32_t)(first_block + blocks);
}

static void write_saves(int32_t *out, const struct kernel_row *r)
{
    uint32_t before = 0;

    assert(r->n_saves <= KERNELS_SAVES_MAX);
    for (uint32_t i = 0; i < r->n_saves; i++) {
        const struct kernel_save *s = &r->saves[i];
        uint32_t tokens = s->position - r->position;

        assert(s->position % KERNELS_SAVE_CUT == 0 && tokens > before);
        assert(tokens <= r->n_tokens);
        *out++ = (int32_t)tokens;
        *out++ = (int32_t)s->page;
        before = tokens;
    }
}

/* Writes the tables of the window blocks that the row's tokens see, if it has
 * any, and returns the ints.  Steps of the MTP layer have none. */
static uint32_t write_windows(const struct opencl *c, int32_t *out,
                              const struct kernel_row *r)
{
    const uint32_t window = c->w->shape.window, bt = c->block_tokens;
    const uint32_t low = r->position >= window ? r->position - window + 1 : 0;
    const uint32_t first = low / bt;
    const uint32_t n = (r->position + r->n_tokens - 1) / bt + 1 - first;

    if (c->sizes.window_pages == 0 || r->window == NULL) {
        return 0;
    }
    assert(r->window_first <= first &&
           first - r->window_first + n <= r->window_stride);
    out[0] = (int32_t)first;
    out[1] = (int32_t)n;
    out += OPENCL_WINDOW_INTS;
    for (uint32_t i = 0; i < c->sizes.window_pages; i++) {
        memcpy(out + (size_t)i * n,
               r->window + (size_t)i * r->window_stride + first -
                   r->window_first,
               n * sizeof *out);
    }
    return OPENCL_WINDOW_INTS + n * c->sizes.window_pages;
}

static void write_tokens(struct opencl *c, uint32_t row,
                         const struct kernel_row *r)
{
    int32_t *out =
        c->meta.host + c->meta.tokens + (size_t)r->first * OPENCL_TOKEN_INTS;

    for (uint32_t i = 0; i < r->n_tokens; i++) {
        *out++ = (int32_t)row;
        *out++ = (int32_t)(r->position + i);
    }
}

static void check_keep(const struct opencl *c, const struct kernel_row *r)
{
    if (r->keep) {
        assert(r->generated && r->n_saves == 0);
        assert(r->n_tokens <= KERNELS_KEEP_MAX);
        assert(r->keep_at <= c->keep_tokens &&
               r->n_tokens <= c->keep_tokens - r->keep_at);
    }
}

/* Appends the caller's row r to the permuted step; *used counts the ints behind
 * META_BLOCKS. */
static void add_row(struct opencl *c, const struct kernel_row *r,
                    uint32_t *used)
{
    struct opencl_step *s = &c->step;
    uint32_t end = r->position + r->n_tokens, blocks = blocks_of(c, end);
    struct kernel_row *to = &c->step.room[s->n_rows];

    assert(end <= c->w->shape.context);
    check_keep(c, r);
    *to = *r;
    to->first = s->n_tokens;
    write_row(c, s->n_rows, to, *used, blocks);
    write_tokens(c, s->n_rows, to);
    if (blocks > 0) {
        /* Only the blocks in use are copied, so short sequences upload
         * little. */
        memcpy(c->meta.host + c->meta.blocks + *used, r->blocks,
               blocks * sizeof *r->blocks);
    }
    *used += blocks;
    write_saves(c->meta.host + c->meta.blocks + *used, r);
    *used += r->n_saves * OPENCL_SAVE_INTS;
    *used += write_windows(c, c->meta.host + c->meta.blocks + *used, r);
    for (uint32_t i = 0; i < r->n_tokens; i++) {
        c->step.places[r->first + i] = to->first + i;
    }
    s->n_rows++;
    s->n_tokens += r->n_tokens;
    if (r->generated) {
        s->n_gen_rows++;
        s->n_gen += r->n_tokens;
        s->gen_saves = s->gen_saves || r->n_saves > 0;
        s->keeps = s->keeps || r->keep;
        s->longest = end > s->longest ? end : s->longest;
    } else {
        s->longest_prompt = end > s->longest_prompt ? end : s->longest_prompt;
    }
}

static void use_windows(struct opencl *c, const struct kernel_row *r)
{
    const uint32_t window = c->w->shape.window, bt = c->block_tokens;
    const uint32_t low = r->position >= window ? r->position - window + 1 : 0;
    const uint32_t first = low / bt - r->window_first;
    const uint32_t end = (r->position + r->n_tokens - 1) / bt + 1;

    for (uint32_t i = 0; i < c->sizes.window_pages; i++) {
        const uint32_t *table = r->window + (size_t)i * r->window_stride;

        for (uint32_t k = first; k < end - r->window_first; k++) {
            opencl_copies_use(c, table[k], 1);
        }
    }
}

/* Notes all pages that a row may read or write. */
static void use_row(struct opencl *c, const struct kernel_row *r)
{
    uint32_t blocks = blocks_of(c, r->position + r->n_tokens);

    for (uint32_t i = 0; i < blocks; i++) {
        opencl_copies_use(c, r->blocks[i], 1);
    }
    if (r->window != NULL) {
        use_windows(c, r);
    }
    opencl_copies_use(c, r->slot, c->cache.pages.pages_per_slot);
    for (uint32_t i = 0; i < r->n_saves; i++) {
        opencl_copies_use(c, r->saves[i].page, c->cache.pages.pages_per_slot);
    }
}

/* Makes the step wait for copies of its pages, and of no other page. */
static void order_copies(struct opencl *c, const struct kernel_step *step)
{
    opencl_copies_poll(c);
    for (uint32_t i = 0; i < step->n_rows && opencl_copies_pending(c); i++) {
        use_row(c, &step->rows[i]);
    }
    opencl_copies_order(c);
}

/* Overwrites meta.host, so no upload of the step before may be in flight: end
 * has waited. */
void opencl_begin(struct kernels *k, const struct kernel_step *step)
{
    struct opencl *c = opencl_of(k);
    uint32_t used = 0;

    assert(step->n_tokens <= c->sizes.max_tokens);
    assert(step->n_rows <= c->sizes.max_rows);
    opencl_draft_begin(c);
    c->step = (struct opencl_step){.rows = c->step.room,
                                   .place = c->step.places,
                                   .room = c->step.room,
                                   .places = c->step.places};
    /* Generated rows first: decode and prefill kernels each get one range. */
    for (int generated = 1; generated >= 0; generated--) {
        for (uint32_t i = 0; i < step->n_rows; i++) {
            if (step->rows[i].generated == (generated == 1)) {
                add_row(c, &step->rows[i], &used);
            }
        }
    }
    c->meta.used = c->meta.blocks + used;
    opencl_rows_stale(c);
    order_copies(c, step);
}

enum status opencl_end(struct kernels *k, struct error *e)
{
    struct opencl *c = opencl_of(k);

    opencl_chain_settle(c);
    opencl_settle(c);
    opencl_copies_poll(c);
    c->meta.used = 0;
    /* A failure stays: a lost device reports it at each end. */
    if (c->health.failed.code != ST_OK && e != NULL) {
        *e = c->health.failed;
    }
    return c->health.failed.code;
}

/* ---- x and logits ---- */

/* Returns how many of the caller's tokens from t on, at most n, are consecutive
 * in the permuted step. */
static uint32_t run_of(const struct opencl *c, uint32_t t, uint32_t n)
{
    uint32_t run = 1;

    while (run < n && c->step.places[t + run] == c->step.places[t] + run) {
        run++;
    }
    return run;
}

void opencl_hidden_read(struct kernels *k, uint32_t first, uint32_t n,
                        float *out)
{
    struct opencl *c = opencl_of(k);
    size_t h = c->w->shape.hidden, bytes = h * sizeof *out;

    assert(first + n <= c->step.n_tokens);
    opencl_chain_settle(c);
    for (uint32_t t = first, run; t < first + n; t += run) {
        run = run_of(c, t, first + n - t);
        opencl_download(c, &c->x, c->step.places[t] * bytes,
                        out + (t - first) * h, run * bytes);
    }
}

void opencl_hidden_write(struct kernels *k, uint32_t first, uint32_t n,
                         const float *in)
{
    struct opencl *c = opencl_of(k);
    size_t h = c->w->shape.hidden, bytes = h * sizeof *in;

    assert(first + n <= c->step.n_tokens);
    opencl_chain_settle(c);
    for (uint32_t t = first, run; t < first + n; t += run) {
        run = run_of(c, t, first + n - t);
        opencl_upload(c, &c->x, c->step.places[t] * bytes, in + (t - first) * h,
                      run * bytes);
    }
    opencl_rows_stale(c);
}

void opencl_logits_read(struct kernels *k, uint32_t i, float *out)
{
    struct opencl *c = opencl_of(k);
    size_t bytes = c->w->shape.vocab * sizeof *out;

    assert(i < c->sizes.max_logits);
    opencl_download(c, &c->logits, i * bytes, out, bytes);
}

void opencl_logits_write(struct kernels *k, uint32_t i, const float *in)
{
    struct opencl *c = opencl_of(k);
    size_t bytes = c->w->shape.vocab * sizeof *in;

    assert(i < c->sizes.max_logits);
    opencl_upload(c, &c->logits, i * bytes, in, bytes);
}
