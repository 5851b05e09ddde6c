#include "worker/plan/drafts.h"

#include <assert.h>
#include <string.h>

#define LEARN_SHARE  0.25f /* of a new time in the average */
#define OUTLIER      2.0f /* times the average: what is longer counts as that */
#define GUESS_SLOPE  0.25f /* of a step's time per times its tokens */
#define LEAST_GAIN   1.02f /* times the plain rate, from which drafts pay */
#define FINE_BUCKETS 64
#define GAP_MAX_US   5000 /* a longer gap is no part of a step */

void drafts_init(struct drafts *d, bool automatic)
{
    memset(d, 0, sizeof *d);
    d->automatic = automatic;
    d->credit = DRAFTS_CREDIT;
}

/* ---- times ---- */

static uint32_t bucket_of(uint32_t n)
{
    uint32_t octave = 0;

    if (n < FINE_BUCKETS) {
        return n;
    }
    while (n >> (octave + 7) != 0) {
        octave++;
    }
    return FINE_BUCKETS + 8 * octave + ((n >> (octave + 3)) & 7);
}

/* Returns the size in the middle of a bucket. */
static float middle_of(uint32_t bucket)
{
    uint32_t octave, part, width;

    if (bucket < FINE_BUCKETS) {
        return (float)bucket;
    }
    octave = (bucket - FINE_BUCKETS) / 8;
    part = (bucket - FINE_BUCKETS) % 8;
    width = 8u << octave;
    return (float)((64u << octave) + part * width) + (float)(width - 1) / 2;
}

_Static_assert(STEP_TOKENS_MAX < 64 << 8 && DRAFTS_BUCKETS == 64 + 8 * 8,
               "there is a bucket for each size of a step");

static void learn(struct drafts_curve *c, uint64_t step, uint32_t n, float us)
{
    uint32_t b = bucket_of(n < STEP_TOKENS_MAX ? n : STEP_TOKENS_MAX);

    if (c->at[b] == 0) {
        c->us[b] = us;
        c->n[b] = (float)n;
    } else if (us > OUTLIER * c->us[b]) {
        us = OUTLIER * c->us[b];
    }
    c->us[b] += LEARN_SHARE * (us - c->us[b]);
    c->n[b] += LEARN_SHARE * ((float)n - c->n[b]);
    c->at[b] = step;
}

/* Returns how many plain steps a step took beyond those that make as many
 * tokens. */
static float cost_of(const struct drafts *d, const struct drafts_step *s)
{
    uint32_t n = s->n_tokens - s->n_drafts, plain = bucket_of(n);
    float us = (float)s->us + (float)s->draft_us;

    if (s->n_drafts + s->draft_us == 0 || d->step.at[plain] == 0) {
        return 0;
    }
    us += s->n_drafts > 0 ? d->gap_us : 0;
    return us / d->step.us[plain] - (float)(n + s->n_accepted) / (float)n;
}

static void account(struct drafts *d, float cost)
{
    float credit = d->credit - cost + 1.0f / DRAFTS_SPEND;

    d->credit = credit < DRAFTS_CREDIT ? credit : DRAFTS_CREDIT;
    d->closed = d->credit < (d->closed ? DRAFTS_CREDIT / 2 : 0);
}

void drafts_note_step(struct drafts *d, const struct drafts_step *s)
{
    if (!d->automatic || s->n_tokens == 0 || s->us == 0) {
        return;
    }
    d->n_steps++;
    account(d, cost_of(d, s));
    learn(&d->step, d->n_steps, s->n_tokens, (float)s->us);
    if (s->n_passes > 0 && s->n_rows > 0 && s->draft_us > 0) {
        learn(&d->pass, d->n_steps, s->n_rows,
              (float)s->draft_us / (float)s->n_passes);
    }
}

void drafts_note_gap(struct drafts *d, uint64_t us)
{
    float gap = us < GAP_MAX_US ? (float)us : (float)GAP_MAX_US;

    d->gap_us += LEARN_SHARE * (gap - d->gap_us);
}

bool drafts_probes(const struct drafts *d)
{
    return d->automatic && d->n_steps - d->drafted_at >= DRAFTS_PROBE;
}

/* Returns the next bucket that has a time, from b on. */
static uint32_t next_of(const float *us, uint32_t b)
{
    while (b < DRAFTS_BUCKETS && us[b] == 0) {
        b++;
    }
    return b;
}

static bool is_old(const struct drafts_curve *c, uint32_t b, uint64_t now)
{
    return now - c->at[b] >= DRAFTS_STALE;
}

/* Returns what an old bucket has, less what it exceeds `floor` by. */
static float faded_us(const struct drafts_curve *c, uint32_t b, uint64_t now,
                      float floor)
{
    uint64_t age = (now - c->at[b]) / DRAFTS_STALE;
    float us = c->us[b];

    for (uint64_t i = 0; i < age && i < 16 && us > floor; i++) {
        us = floor + (us - floor) / 2;
    }
    return us;
}

/* Copies the times that count, 0 for the others.  Old ones below a new one do
 * not count: a line through the new ones is nearer. */
static void choose_times(const struct drafts_curve *c, uint64_t now,
                         uint32_t plain, float *us)
{
    bool above = false;

    for (uint32_t b = DRAFTS_BUCKETS; b-- > 0;) {
        us[b] = 0;
        if (c->at[b] != 0 && (!above || b == plain || !is_old(c, b, now))) {
            us[b] = faded_us(c, b, now, b > plain ? c->us[plain] : c->us[b]);
        }
        above = above || (c->at[b] != 0 && !is_old(c, b, now));
    }
}

/* Returns the time of size x behind the measured bucket `last`: on a line to
 * `next`, if that was measured. */
static float beyond(const struct drafts_curve *c, const float *us,
                    uint32_t last, uint32_t next, float x)
{
    float base = c->n[last] > 1 ? c->n[last] : 1;

    if (x <= c->n[last]) {
        return us[last];
    }
    if (next < DRAFTS_BUCKETS) {
        return us[last] + (us[next] - us[last]) * (x - c->n[last]) /
                              (c->n[next] - c->n[last]);
    }
    return us[last] * (1 + GUESS_SLOPE * (x - base) / base);
}

/* Estimates all times, as seen from a step of n tokens.  Nothing measured: all
 * are 0. */
static void estimate(const struct drafts_curve *c, uint64_t now, uint32_t n,
                     struct drafts_times *out)
{
    float us[DRAFTS_BUCKETS];
    uint32_t last, next;

    choose_times(c, now, bucket_of(n), us);
    memset(out, 0, sizeof *out);
    last = next_of(us, 0);
    if (last == DRAFTS_BUCKETS) {
        return;
    }
    next = next_of(us, last + 1);
    for (uint32_t b = 0; b < DRAFTS_BUCKETS; b++) {
        while (next < DRAFTS_BUCKETS && middle_of(b) > c->n[next]) {
            last = next;
            next = next_of(us, last + 1);
        }
        out->us[b] = beyond(c, us, last, next, middle_of(b));
    }
}

static float time_of(const struct drafts_times *t, uint32_t n)
{
    uint32_t b = bucket_of(n), other;
    float at = (float)n - middle_of(b), width;

    if (n < FINE_BUCKETS) {
        return t->us[b];
    }
    other = at < 0 || b + 1 == DRAFTS_BUCKETS ? b - 1 : b + 1;
    width = middle_of(other) - middle_of(b);
    return t->us[b] + (t->us[other] - t->us[b]) * at / width;
}

float drafts_step_us(struct drafts *d, uint32_t n_tokens)
{
    estimate(&d->step, d->n_steps, n_tokens, &d->step_now);
    return time_of(&d->step_now, n_tokens);
}

/* ---- acceptance ---- */

void drafts_note_accepted(float accepts[DRAFTS_MAX], float share, uint32_t n,
                          uint32_t n_accepted)
{
    for (uint32_t i = 0; i < n && i <= n_accepted; i++) {
        accepts[i] += share * ((i < n_accepted ? 1.0f : 0.0f) - accepts[i]);
    }
}

/* ---- the choice ---- */

/* Moves the entry at i of the heap of n, the highest gain first, down. */
static void sift(struct drafts *d, uint32_t n, uint32_t i)
{
    for (;;) {
        uint32_t child = 2 * i + 1;
        uint16_t x = d->heap[i];

        if (child + 1 < n &&
            d->gain[d->heap[child + 1]] > d->gain[d->heap[child]]) {
            child++;
        }
        if (child >= n || d->gain[d->heap[child]] <= d->gain[x]) {
            return;
        }
        d->heap[i] = d->heap[child];
        d->heap[child] = x;
        i = child;
    }
}

static float weight_of(const struct drafts_row *row)
{
    return row->urgent ? DRAFTS_URGENT : 1.0f;
}

/* Returns what the tokens of a plain step count. */
static float plain_worth(const struct drafts_row *rows, uint32_t n,
                         uint32_t n_tokens)
{
    float worth = (float)(n_tokens - n);

    for (uint32_t i = 0; i < n; i++) {
        worth += weight_of(&rows[i]);
    }
    return worth;
}

static uint32_t fill_heap(struct drafts *d, const struct drafts_row *rows,
                          uint32_t n)
{
    uint32_t m = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (rows[i].most > 0) {
            d->gain[i] = weight_of(&rows[i]) * rows[i].accepts[0];
            d->heap[m++] = (uint16_t)i;
        }
    }
    for (uint32_t i = m / 2; i-- > 0;) {
        sift(d, m, i);
    }
    return m;
}

/* Adds drafts in the order of their gain, and returns how many of them give the
 * best rate.  n_tokens: of the plain step; worth: what those count. */
static uint32_t best_prefix(struct drafts *d, struct drafts_row *rows,
                            uint32_t m, uint32_t n_tokens, float worth)
{
    uint32_t at_depth[DRAFTS_MAX] = {0}, added = 0, best = 0;
    float passes = 0;
    float best_rate = LEAST_GAIN * worth / time_of(&d->step_now, n_tokens);

    while (m > 0 && n_tokens + added < STEP_TOKENS_MAX) {
        uint32_t i = d->heap[0], *rows_at = &at_depth[rows[i].k];
        struct drafts_row *row = &rows[i];
        float rate;

        d->order[added++] = (uint16_t)i;
        worth += d->gain[i];
        if (row->mtp) {
            passes -= *rows_at > 0 ? time_of(&d->pass_now, *rows_at) : 0;
            passes += time_of(&d->pass_now, ++*rows_at);
        }
        rate = worth /
               (time_of(&d->step_now, n_tokens + added) + passes + d->gap_us);
        if (rate > best_rate) {
            best_rate = rate;
            best = added;
        }
        row->k++;
        if (row->k < row->most) {
            d->gain[i] *= row->accepts[row->k];
        } else {
            d->heap[0] = d->heap[--m];
        }
        sift(d, m, 0);
    }
    return best;
}

static void choose_best(struct drafts *d, struct drafts_row *rows, uint32_t n,
                        uint32_t n_tokens)
{
    uint32_t best, plain = bucket_of(n_tokens);

    if (d->step.at[plain] == 0) {
        return; /* first its time without drafts */
    }
    estimate(&d->step, d->n_steps, n_tokens, &d->step_now);
    estimate(&d->pass, d->n_steps, 0, &d->pass_now);
    best = best_prefix(d, rows, fill_heap(d, rows, n), n_tokens,
                       plain_worth(rows, n, n_tokens));
    for (uint32_t i = 0; i < n; i++) {
        rows[i].k = 0;
    }
    for (uint32_t i = 0; i < best; i++) {
        rows[d->order[i]].k++;
    }
}

void drafts_choose(struct drafts *d, struct drafts_row *rows, uint32_t n,
                   uint32_t n_others)
{
    assert(n <= DRAFTS_ROWS);
    for (uint32_t i = 0; i < n; i++) {
        rows[i].k = d->automatic ? 0 : rows[i].most;
        rows[i].probe = rows[i].probe && !d->closed;
    }
    if (d->automatic && !d->closed && n + n_others > 0 &&
        n + n_others < STEP_TOKENS_MAX) {
        choose_best(d, rows, n, n + n_others);
    }
    for (uint32_t i = 0; i < n; i++) {
        rows[i].probe = rows[i].probe && rows[i].most > 0 && rows[i].k == 0;
        rows[i].k += rows[i].probe;
    }
}

bool drafts_pay(struct drafts *d, const struct drafts_row *row,
                const float *others, uint32_t n)
{
    struct drafts_row rows[DRAFTS_ROWS];

    n = n < DRAFTS_ROWS ? n : DRAFTS_ROWS - 1;
    rows[0] = *row;
    for (uint32_t i = 1; i <= n; i++) {
        rows[i] = (struct drafts_row){
            .accepts = others, .most = DRAFTS_MAX, .mtp = row->mtp};
    }
    drafts_choose(d, rows, n + 1, 0);
    return rows[0].k > 0;
}

bool drafts_may_try(const struct drafts *d)
{
    return !d->closed && d->credit >= DRAFTS_CREDIT / 2;
}

bool drafts_stop(struct drafts *d, const struct drafts_row *row,
                 const float *others, uint32_t n, uint32_t idle)
{
    return d->automatic && idle > 0 && idle % DRAFTS_IDLE == 0 &&
           !drafts_pay(d, row, others, n);
}
