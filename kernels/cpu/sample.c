/* sample.c - chooses a token from a row of logits, and computes logprobs.  The
 * rules are in kernels.h and common/sampling/sampling.h. */
#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/philox.h"

struct sample_job {
    struct cpu *c;
    const struct sample_row *rows;
    struct sample_result *out; /* [n] */
};

/* ---- bias and penalties ---- */

static bool needs_adjusting(const struct sampling *s)
{
    return s->n_biases > 0 || sampling_penalises(s);
}

static float penalised_logit(float l, uint32_t times, const struct sampling *s)
{
    l = l > 0.0f ? l / s->repetition_penalty : l * s->repetition_penalty;
    if (times > 0) {
        l -= s->frequency_penalty * (float)times;
        l -= s->presence_penalty;
    }
    return l;
}

/* Applies the penalties to each of the row's ids once.  times [V] may hold
 * anything before and after; only the entries of the ids are used. */
static void penalise_ids(float *l, uint32_t *times,
                         const struct sample_row *row, uint32_t vocab)
{
    const struct sampling *s = row->sampling;
    uint32_t begin = s->repetition_penalty != 1.0f ? 0 : row->n_prompt;

    /* struct sample_row promises this; a wrong id would write out of bounds. */
    assert(row->n_prompt <= row->n_ids);
    for (uint32_t i = begin; i < row->n_ids; i++) {
        assert(row->ids[i] < vocab);
        times[row->ids[i]] = 0;
    }
    for (uint32_t i = row->n_prompt; i < row->n_ids; i++) {
        times[row->ids[i]]++;
    }
    for (uint32_t i = begin; i < row->n_ids; i++) {
        uint32_t id = row->ids[i];

        if (times[id] != UINT32_MAX) {
            l[id] = penalised_logit(l[id], times[id], s);
            times[id] = UINT32_MAX;
        }
    }
}

static void adjust_logits(const struct cpu_lane *lane, const float *raw,
                          const struct sample_row *row, uint32_t vocab)
{
    const struct sampling *s = row->sampling;

    /* On a copy, since logprobs are those of the model's own logits. */
    memcpy(lane->l, raw, vocab * sizeof *raw);
    for (uint32_t i = 0; i < s->n_biases; i++) {
        assert(s->bias_tokens[i] < vocab);
        lane->l[s->bias_tokens[i]] += s->biases[i];
    }
    if (sampling_penalises(s)) {
        penalise_ids(lane->l, lane->ids, row, vocab);
    }
}

/* ---- logprobs ---- */

/* Finds the k >= 1 best ids, equal logits by lower id; returns how many there
 * are. */
static uint32_t best_ids(const struct cpu_isa *isa, const float *l,
                         uint32_t vocab, uint32_t k, uint32_t *ids)
{
    uint32_t n = 0;
    float bar = -INFINITY;

    /* Ids come in ascending order, so an equal of the last one ranks behind
     * it. */
    for (size_t i = 0; (i = isa->above(l, i, vocab, bar)) < vocab; i++) {
        uint32_t at = n < k ? n++ : k - 1;

        for (; at > 0 && l[ids[at - 1]] < l[i]; at--) {
            ids[at] = ids[at - 1];
        }
        ids[at] = (uint32_t)i;
        bar = n < k ? bar : l[ids[k - 1]];
    }
    return n;
}

/* Never positive: the sum includes the best logit's own 1. */
static float logprob(float l, float top, double log_sum)
{
    double lp = (double)l - (double)top - log_sum;

    return (float)(lp > (double)-FLT_MAX ? lp : (double)-FLT_MAX);
}

/* l [V] holds the model's own logits, before bias and penalties. */
static void add_logprobs(const struct cpu *c, const float *l,
                         const struct sampling *s, struct sample_result *out)
{
    uint32_t vocab = c->w->shape.vocab, ids[TOP_LOGPROBS_MAX], n = 0;
    float top = c->isa->highest(l, vocab);
    double log_sum = log(c->isa->exp_sum(l, top, vocab));

    assert(s->n_top_logprobs <= TOP_LOGPROBS_MAX);
    out->logprob = logprob(l[out->token], top, log_sum);
    if (s->n_top_logprobs > 0) {
        n = best_ids(c->isa, l, vocab, s->n_top_logprobs, ids);
    }
    for (uint32_t i = 0; i < n; i++) {
        out->top[i] =
            (struct token_logprob){ids[i], logprob(l[ids[i]], top, log_sum)};
    }
    for (uint32_t i = n; i < s->n_top_logprobs; i++) {
        out->top[i] = (struct token_logprob){0, -FLT_MAX};
    }
}

/* ---- the draw ---- */

/* The choice of one row in progress. */
struct draw {
    const float *l; /* [V] logits */
    float *p;       /* [V] weights */
    uint32_t *ids;  /* [V] subset of the ids */
    double *bucket; /* [CPU_BUCKETS] weight in each */
    uint32_t vocab, best;
};

static bool ranks_before(const struct draw *d, uint32_t a, uint32_t b)
{
    return d->l[a] > d->l[b] || (d->l[a] == d->l[b] && a < b);
}

static void swap_ids(uint32_t *a, uint32_t *b)
{
    uint32_t t = *a;

    *a = *b;
    *b = t;
}

/* Splits ids[lo .. hi), at least two, into better and worse; returns where the
 * worse begin, lo < it < hi.  The pivot is the median of three. */
static uint32_t split_ids(const struct draw *d, uint32_t lo, uint32_t hi)
{
    uint32_t *ids = d->ids, mid = lo + (hi - lo) / 2, end = lo + 1;

    if (ranks_before(d, ids[mid], ids[lo])) {
        swap_ids(&ids[mid], &ids[lo]);
    }
    if (ranks_before(d, ids[hi - 1], ids[lo])) {
        swap_ids(&ids[hi - 1], &ids[lo]);
    }
    /* ids[lo] is the best of three; the pivot is the better of the other
     * two. */
    if (ranks_before(d, ids[mid], ids[hi - 1])) {
        swap_ids(&ids[mid], &ids[hi - 1]);
    }
    for (uint32_t i = lo + 1; i + 1 < hi; i++) {
        if (ranks_before(d, ids[i], ids[hi - 1])) {
            swap_ids(&ids[i], &ids[end++]);
        }
    }
    if (end < hi - 1) {
        swap_ids(&ids[end], &ids[hi - 1]);
        end++;
    }
    return end;
}

static double total_weight(const struct draw *d)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < d->vocab; i++) {
        sum += (double)d->p[i];
    }
    return sum;
}

/* Sorts ids into buckets by their distance from the best logit, in order of
 * rank.  A bucket is the upper bits of that float, so buckets are finer near
 * the best. */
static uint32_t bucket_of(const struct draw *d, uint32_t id)
{
    float behind = d->l[d->best] - d->l[id];
    uint32_t bits;

    memcpy(&bits, &behind, sizeof bits);
    return bits << 1 >> (32 - CPU_BUCKET_BITS); /* drops the sign, as zero may
                                                 * have either */
}

/* For top_k each id weighs 1; for top_p its weight in the draw. */
static double weight_of(const struct draw *d, uint32_t id, bool each)
{
    return each ? 1.0 : (double)d->p[id];
}

static double run_weight(const struct draw *d, uint32_t lo, uint32_t hi,
                         bool each)
{
    double sum = 0.0;

    for (uint32_t i = lo; i < hi; i++) {
        sum += weight_of(d, d->ids[i], each);
    }
    return sum;
}

/* Returns the bucket in which the best ids reach the weight `need`, or
 * CPU_BUCKETS if none does.  *need becomes what that bucket must contribute. */
static uint32_t find_bucket(const struct draw *d, double *need, bool each)
{
    uint32_t at = 0;

    memset(d->bucket, 0, CPU_BUCKETS * sizeof *d->bucket);
    for (uint32_t i = 0; i < d->vocab; i++) {
        d->bucket[bucket_of(d, i)] += weight_of(d, i, each);
    }
    for (; at < CPU_BUCKETS && d->bucket[at] < *need; at++) {
        *need -= d->bucket[at];
    }
    return at;
}

static uint32_t gather_bucket(const struct draw *d, uint32_t bucket)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < d->vocab; i++) {
        d->ids[n] = i;
        n += bucket_of(d, i) == bucket;
    }
    return n;
}

/* Returns the last id of the shortest prefix of ids[0 .. n), by rank, that
 * weighs at least `need`; the last of all n if they weigh less. */
static uint32_t last_of(const struct draw *d, uint32_t n, double need,
                        bool each)
{
    uint32_t lo = 0, hi = n;

    while (hi - lo > 1) {
        uint32_t mid = split_ids(d, lo, hi);
        double part = run_weight(d, lo, mid, each);

        if (part >= need) {
            hi = mid;
        } else {
            need -= part;
            lo = mid;
        }
    }
    return d->ids[lo];
}

/* Keeps the shortest prefix by rank that weighs at least `need`, and sets the
 * weights of all other ids to 0. */
static void keep_best(const struct draw *d, double need, bool each)
{
    uint32_t bucket = find_bucket(d, &need, each), last;

    /* Rounding can leave the whole weight below `need`: then all are kept. */
    if (bucket == CPU_BUCKETS) {
        return;
    }
    last = last_of(d, gather_bucket(d, bucket), need, each);
    for (uint32_t i = 0; i < d->vocab; i++) {
        d->p[i] = ranks_before(d, last, i) ? 0.0f : d->p[i];
    }
}

static void drop_below(const struct draw *d, float min_p)
{
    for (uint32_t i = 0; i < d->vocab; i++) {
        d->p[i] = d->p[i] < min_p ? 0.0f : d->p[i];
    }
}

static uint32_t pick_token(const struct draw *d, double u)
{
    /* The running sum goes in id order, as kernels.h prescribes. */
    double reach = u * total_weight(d), sum = 0.0;
    uint32_t token = 0;

    for (uint32_t i = 0; i < d->vocab; i++) {
        sum += (double)d->p[i];
        if (d->p[i] > 0.0f) {
            token = i;
        }
        if (sum > reach) {
            break;
        }
    }
    return token;
}

static uint32_t draw_token(const struct cpu *c, const struct cpu_lane *lane,
                           const float *l, uint32_t best,
                           const struct sample_row *row)
{
    const struct sampling *s = row->sampling;
    uint32_t vocab = c->w->shape.vocab;
    struct draw d = {l, lane->p, lane->ids, lane->bucket, vocab, best};

    c->isa->weigh(d.p, l, l[best], 1.0f / s->temperature, vocab);
    if (s->top_k > 0 && s->top_k < vocab) {
        keep_best(&d, s->top_k, true);
    }
    if (s->top_p < 1.0f) {
        keep_best(&d, (double)s->top_p * total_weight(&d), false);
    }
    if (s->min_p > 0.0f) {
        drop_below(&d, s->min_p);
    }
    return pick_token(&d, philox_uniform(s->seed, row->choice, row->index));
}

/* ---- a row ---- */

/* Returns the best id, the lower of equals; V if a logit is not finite. */
static uint32_t best_of(const struct cpu_isa *isa, const float *l,
                        uint32_t vocab)
{
    float top = isa->highest(l, vocab);

    return isnan(top)
               ? vocab
               : (uint32_t)isa->above(l, 0, vocab, nextafterf(top, -INFINITY));
}

/* Checks the adjusted logits: bias and penalties never make an infinite or NaN
 * logit finite. */
static void sample_task(void *arg, uint32_t i, uint32_t thread)
{
    struct sample_job *j = arg;
    const struct sample_row *row = &j->rows[i];
    const struct sampling *s = row->sampling;
    const struct cpu_lane *lane = &j->c->lanes[thread];
    uint32_t vocab = j->c->w->shape.vocab, best;
    const float *raw = j->c->logits + (size_t)i * vocab, *l = raw;

    cpu_tick(j->c);
    if (needs_adjusting(s)) {
        adjust_logits(lane, raw, row, vocab);
        l = lane->l;
    }
    best = best_of(j->c->isa, l, vocab);
    if (best < vocab && s->temperature >= KERNELS_TEMPERATURE_MIN) {
        best = draw_token(j->c, lane, l, best, row);
    }
    j->out[i].token = best;
    j->out[i].status = best < vocab ? ST_OK : ST_DATA_LOSS;
    if (best < vocab && s->logprobs) {
        add_logprobs(j->c, raw, s, &j->out[i]);
    }
}

enum status cpu_sample(struct kernels *k, const struct sample_row *rows,
                       uint32_t n, struct sample_result *out, struct error *e)
{
    struct cpu *c = cpu_of(k);
    struct sample_job j = {.c = c, .rows = rows, .out = out};

    (void)e; /* a CPU does not fail; a row has its own status */
    cpu_run(c, sample_task, &j, n, (size_t)n * c->w->shape.vocab * 8);
    return ST_OK;
}
