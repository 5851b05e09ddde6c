/* replay.c - replays of kept inputs.
 *
 * A replay reads and writes the whole state of a slot, and so does the next
 * row of that slot.  So a replay waits for that row, which advances the columns
 * in a core's cache by the kept inputs first.  Whatever else needs the slot's
 * pages, or may give them another use, runs the replay at once: a step without
 * the slot, and every call that copies, zeroes or reads pages. */
#include <assert.h>
#include <string.h>

#include "kernels/cpu/mixer.h"

/* Kept inputs of one slot. */
struct part {
    uint32_t layer, slot;
    size_t at;  /* of the first in the kept inputs */
    uint32_t n; /* at most KERNELS_KEEP_MAX */
};

static size_t keys_of(const struct cpu *c)
{
    return (size_t)c->w->shape.n_k_heads * c->w->shape.k_dim;
}

/* Returns the channels but those of the queries. */
static size_t rest_of(const struct cpu *c)
{
    const struct model_shape *m = &c->w->shape;

    return keys_of(c) + (size_t)m->n_v_heads * m->v_dim;
}

/* ---- columns of a part ---- */

/* Convolves n channels from that of `channel`, counted from the first of k, to
 * rows ld_out apart, and advances their tail. */
static void convolve(const struct cpu *c, const struct part *p, size_t channel,
                     size_t n, float *out, size_t ld_out)
{
    const struct cpu_layer *l = &c->layers[p->layer];
    char *tail = cpu_tail(c, p->layer, p->slot);
    size_t keys = keys_of(c), rest = rest_of(c), at = keys + channel;
    const struct conv_task t = {
        .in = l->kept.kv + p->at * rest + channel,
        .out = out,
        .w = l->conv + at,
        .tail = tail == NULL ? NULL : tail + at * dtype_bytes(c->kv.dtype),
        .ld = rest,
        .ld_out = ld_out,
        .ld_w = keys + rest,
        .n_tokens = p->n,
        .n = (uint32_t)n,
        .k = c->w->shape.conv,
        .dtype = c->kv.dtype,
    };

    c->isa->conv(&t);
}

/* Moves n queries from that of `channel`, which are as the tail has them, into
 * the tail. */
static void shift_queries(const struct cpu *c, const struct part *p,
                          size_t channel, size_t n)
{
    const struct cpu_layer *l = &c->layers[p->layer];
    size_t item = dtype_bytes(c->kv.dtype), keys = keys_of(c);
    size_t column = channel * item, row = (keys + rest_of(c)) * item;
    char *tail = cpu_tail(c, p->layer, p->slot);
    uint32_t past = c->w->shape.conv - 1;

    for (uint32_t i = 0; i < past; i++) {
        uint32_t from = i + p->n; /* of the tail, then the kept ones */
        const char *q = from < past
                            ? tail + from * row
                            : l->kept.q + (p->at + from - past) * keys * item;

        memcpy(tail + i * row + column, q + column, n * item);
    }
}

/* Advances n <= STATE_COLUMNS columns of the state of one value head; k, v of
 * that head, and of those columns, rows ld apart. */
static void advance(const struct cpu *c, const struct part *p, uint32_t head,
                    uint32_t first, uint32_t n, const float *k, const float *v,
                    size_t ld_k, size_t ld_v, float *block)
{
    const struct model_shape *m = &c->w->shape;
    const struct cpu_kept *kept = &c->layers[p->layer].kept;
    size_t gate = p->at * m->n_v_heads + head;

    c->isa->delta(&(struct delta_task){
        .state = cpu_state(c, p->layer, p->slot) +
                 (size_t)head * m->k_dim * m->v_dim + first,
        .block = block,
        .k = k,
        .v = v,
        .decay = kept->decay + gate,
        .beta = kept->beta + gate,
        .ld_state = m->v_dim,
        .ld_qk = ld_k,
        .ld_v = ld_v,
        .ld_gate = m->n_v_heads,
        .n_tokens = p->n,
        .dk = m->k_dim,
        .n = n,
    });
}

/* ---- a replay at once ---- */

struct replay_job {
    struct cpu *c;
    const struct kernel_replay *replays;
    uint32_t n;
};

/* Replays inputs of a key head and its value heads. */
static void replay_part(const struct cpu *c, const struct part *p,
                        uint32_t k_head, const struct cpu_lane *lane)
{
    const struct model_shape *m = &c->w->shape;
    uint32_t group = m->n_v_heads / m->n_k_heads;
    float *k = lane->draft.k, *v = lane->draft.v;
    size_t key = (size_t)k_head * m->k_dim;

    shift_queries(c, p, key, m->k_dim);
    convolve(c, p, key, m->k_dim, k, m->k_dim);
    for (uint32_t i = 0; i < p->n; i++) {
        c->isa->l2_norm(k + (size_t)i * m->k_dim, m->k_dim, CPU_L2_EPS, 1.0f);
    }
    for (uint32_t h = k_head * group; h < (k_head + 1) * group; h++) {
        convolve(c, p, keys_of(c) + (size_t)h * m->v_dim, m->v_dim, v,
                 m->v_dim);
        for (uint32_t first = 0; first < m->v_dim; first += STATE_COLUMNS) {
            uint32_t left = m->v_dim - first;

            advance(c, p, h, first, left < STATE_COLUMNS ? left : STATE_COLUMNS,
                    k, v + first, m->k_dim, m->v_dim, lane->state);
        }
    }
}

static void replay_task(void *arg, uint32_t task, uint32_t thread)
{
    const struct replay_job *j = arg;
    uint32_t hk = j->c->w->shape.n_k_heads;
    const struct kernel_replay *r = &j->replays[task / hk % j->n];
    const struct part p = {
        .layer = j->c->replays.linear[task / hk / j->n],
        .slot = r->slot,
        .at = r->keep_at,
        .n = r->n_tokens,
    };

    /* A step of some layers leaves the others waiting. */
    if (j->c->layers[p.layer].waits) {
        replay_part(j->c, &p, task % hk, &j->c->lanes[thread]);
    }
    cpu_tick(j->c);
}

/* Runs n waiting replays, in the layers that wait. */
static void run_replays(struct cpu *c, const struct kernel_replay *r,
                        uint32_t n)
{
    struct replay_job j = {.c = c, .replays = r, .n = n};
    size_t tokens = 0;

    for (uint32_t i = 0; i < n; i++) {
        tokens += r[i].n_tokens;
    }
    cpu_run(c, replay_task, &j, c->replays.n_linear * n * c->w->shape.n_k_heads,
            c->replays.n_linear * tokens * cpu_state_floats(c) * 4);
}

static void set_waits(struct cpu *c, bool waits)
{
    for (uint32_t i = 0; i < c->replays.n_linear; i++) {
        c->layers[c->replays.linear[i]].waits = waits;
    }
}

void cpu_settle(struct cpu *c)
{
    if (c->replays.n_waiting > 0) {
        run_replays(c, c->replays.waiting, c->replays.n_waiting);
        set_waits(c, false);
        c->replays.n_waiting = 0;
    }
}

/* Runs n replays in the layers whose replays do not wait. */
static void replay_others(struct cpu *c, const struct kernel_replay *r,
                          uint32_t n)
{
    for (uint32_t i = 0; i < shard_layers(c->w); i++) {
        const struct cpu_mixer *m = c->layers[i].mixer;

        for (uint32_t j = 0; m->replay != NULL && j < n; j++) {
            m->replay(c, i, &r[j]);
        }
    }
}

void cpu_replay(struct kernels *k, const struct kernel_replay *r, uint32_t n)
{
    struct cpu *c = cpu_of(k);

    cpu_settle(c);
    for (uint32_t i = 0; i < n; i++) {
        assert(r[i].n_tokens <= KERNELS_KEEP_MAX &&
               r[i].n_tokens <= c->replays.n_tokens &&
               r[i].keep_at <= c->replays.n_tokens - r[i].n_tokens);
    }
    replay_others(c, r, n);
    set_waits(c, n > 0);
    if (n > c->sizes.max_rows) {
        run_replays(c, r, n);
        set_waits(c, false);
        return;
    }
    memcpy(c->replays.waiting, r, n * sizeof *r);
    c->replays.n_waiting = n;
}

/* ---- replays in a step ---- */

/* Returns the row of the slot, or n_rows. */
static uint32_t row_of_slot(const struct kernel_step *s, uint32_t slot)
{
    uint32_t row = 0;

    while (row < s->n_rows && s->rows[row].slot != slot) {
        row++;
    }
    return row;
}

void cpu_match_replays(struct cpu *c)
{
    uint32_t n = 0, at = 0, left = c->replays.n_waiting;

    if (c->replays.matched || c->mtp.steps) {
        return;
    }
    c->replays.matched = true;
    for (uint32_t i = 0; left > 0 && i < c->step->n_rows; i++) {
        c->replays.early[i].n = 0;
    }
    while (n < left) {
        struct kernel_replay r = c->replays.waiting[n];
        uint32_t row = row_of_slot(c->step, r.slot);

        if (row < c->step->n_rows && at + r.n_tokens <= c->replays.n_tokens) {
            c->replays.early[row] =
                (struct cpu_early){r.keep_at, at, r.n_tokens};
            at += r.n_tokens;
            n++;
        } else {
            c->replays.waiting[n] = c->replays.waiting[--left];
            c->replays.waiting[left] = r;
        }
    }
    if (n < c->replays.n_waiting) {
        run_replays(c, c->replays.waiting + n, c->replays.n_waiting - n);
        set_waits(c, n > 0);
        c->replays.n_waiting = n;
    }
}

void cpu_end_replays(struct cpu *c)
{
    if (c->replays.matched) {
        cpu_settle(c);
        c->replays.matched = false;
    }
}

/* Returns the kept inputs that wait for a row of the step; n is 0 if there are
 * none. */
static struct part part_of(const struct cpu *c, uint32_t layer, uint32_t row)
{
    struct part p = {.layer = layer, .slot = c->step->rows[row].slot};

    if (c->layers[layer].waits) {
        p.at = c->replays.early[row].keep_at;
        p.n = c->replays.early[row].n;
    }
    return p;
}

void cpu_early_conv(const struct cpu *c, uint32_t layer, uint32_t row,
                    size_t first, size_t n)
{
    const struct part p = part_of(c, layer, row);
    size_t keys = keys_of(c), rest = rest_of(c), queries = 0;

    if (p.n > 0 && first < keys) {
        queries = keys - first < n ? keys - first : n;
        shift_queries(c, &p, first, queries);
    }
    if (p.n > 0 && queries < n) {
        size_t channel = first + queries - keys;

        convolve(c, &p, channel, n - queries,
                 c->replays.early_kv + c->replays.early[row].at * rest +
                     channel,
                 rest);
    }
}

void cpu_early_norm(const struct cpu *c, uint32_t layer, uint32_t row)
{
    const struct part p = part_of(c, layer, row);
    const struct model_shape *m = &c->w->shape;

    for (uint32_t i = 0; i < p.n; i++) {
        float *k =
            c->replays.early_kv + (c->replays.early[row].at + i) * rest_of(c);

        for (uint32_t h = 0; h < m->n_k_heads; h++) {
            c->isa->l2_norm(k + (size_t)h * m->k_dim, m->k_dim, CPU_L2_EPS,
                            1.0f);
        }
    }
}

void cpu_early_state(const struct cpu *c, uint32_t layer, uint32_t row,
                     uint32_t head, uint32_t first, uint32_t n, float *block)
{
    const struct part p = part_of(c, layer, row);
    const struct model_shape *m = &c->w->shape;
    size_t key = head / (m->n_v_heads / m->n_k_heads) * (size_t)m->k_dim;
    size_t value = keys_of(c) + (size_t)head * m->v_dim + first;

    if (p.n > 0) {
        const float *kv =
            c->replays.early_kv + c->replays.early[row].at * rest_of(c);

        advance(c, &p, head, first, n, kv + key, kv + value, rest_of(c),
                rest_of(c), block);
    }
}
