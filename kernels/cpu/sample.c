/* sample.c - a token out of a row of logits; the rule is in kernels.h. */
#include <float.h>
#include <stdbool.h>

#include "kernels/cpu/cpu.h"
#include "kernels/philox.h"

struct sample_job {
    struct cpu *c;
    const struct sample_row *rows;
    struct sample_result *out; /* [n] */
    atomic_uint broken;        /* 1 + the row whose logits are not finite */
};

/* One row's choice in progress. */
struct draw {
    const float *l; /* [V] logits */
    float *p;       /* [V] weights */
    uint32_t *ids;  /* [V], the kept ones first */
    uint32_t vocab, kept;
};

/* The best id, the lower of equals; V if a logit is not finite. */
static uint32_t best_of(const float *l, uint32_t vocab)
{
    uint32_t best = 0;
    bool finite = true;

    for (uint32_t i = 0; i < vocab; i++) {
        finite &= l[i] <= FLT_MAX && l[i] >= -FLT_MAX;
        best = l[i] > l[best] ? i : best;
    }
    return finite ? best : vocab;
}

static bool better(const struct draw *d, uint32_t a, uint32_t b)
{
    return d->l[a] > d->l[b] || (d->l[a] == d->l[b] && a < b);
}

static void swap(uint32_t *a, uint32_t *b)
{
    uint32_t t = *a;

    *a = *b;
    *b = t;
}

/* Split ids[lo .. hi), at least two, into better and worse; where the worse
 * begin, lo < it < hi.  The pivot is the middle of three. */
static uint32_t split(const struct draw *d, uint32_t lo, uint32_t hi)
{
    uint32_t *ids = d->ids, mid = lo + (hi - lo) / 2, end = lo + 1;

    if (better(d, ids[mid], ids[lo])) {
        swap(&ids[mid], &ids[lo]);
    }
    if (better(d, ids[hi - 1], ids[lo])) {
        swap(&ids[hi - 1], &ids[lo]);
    }
    /* ids[lo] is the best of three; the pivot is the better of the rest. */
    if (better(d, ids[mid], ids[hi - 1])) {
        swap(&ids[mid], &ids[hi - 1]);
    }
    for (uint32_t i = lo + 1; i + 1 < hi; i++) {
        if (better(d, ids[i], ids[hi - 1])) {
            swap(&ids[i], &ids[end++]);
        }
    }
    if (end < hi - 1) {
        swap(&ids[end], &ids[hi - 1]);
        end++;
    }
    return end;
}

/* The k best come first. */
static void keep_count(struct draw *d, uint32_t k)
{
    uint32_t lo = 0, hi = d->kept;

    while (hi - lo > 1) {
        uint32_t mid = split(d, lo, hi);

        if (mid > k) {
            hi = mid;
        } else if (mid < k) {
            lo = mid;
        } else {
            break;
        }
    }
    d->kept = k;
}

static double mass(const struct draw *d, uint32_t lo, uint32_t hi)
{
    double sum = 0.0;

    for (uint32_t i = lo; i < hi; i++) {
        sum += (double)d->p[d->ids[i]];
    }
    return sum;
}

/* The shortest run of the best with that share of the mass comes first. */
static void keep_share(struct draw *d, double share)
{
    double need = share * mass(d, 0, d->kept), have = 0.0;
    uint32_t lo = 0, hi = d->kept;

    while (hi - lo > 1) {
        uint32_t mid = split(d, lo, hi);
        double part = mass(d, lo, mid);

        if (have + part >= need) {
            hi = mid;
        } else {
            have += part;
            lo = mid;
        }
    }
    d->kept = hi;
}

/* The kept id that ranks last. */
static uint32_t last_kept(const struct draw *d)
{
    uint32_t last = d->ids[0];

    for (uint32_t i = 1; i < d->kept; i++) {
        last = better(d, last, d->ids[i]) ? d->ids[i] : last;
    }
    return last;
}

static void filter(struct draw *d, const struct sampling *r)
{
    for (uint32_t i = 0; i < d->vocab; i++) {
        d->ids[i] = i;
    }
    if (r->top_k > 0 && r->top_k < d->kept) {
        keep_count(d, r->top_k);
    }
    if (r->top_p < 1.0f) {
        keep_share(d, (double)r->top_p);
    }
    uint32_t last = last_kept(d);

    for (uint32_t i = 0; i < d->vocab; i++) {
        if (better(d, last, i)) {
            d->p[i] = 0.0f;
        }
    }
}

static uint32_t pick(const struct draw *d, double u)
{
    double total = 0.0, sum = 0.0;
    uint32_t token = 0;

    for (uint32_t i = 0; i < d->vocab; i++) {
        total += (double)d->p[i];
    }
    for (uint32_t i = 0; i < d->vocab; i++) {
        sum += (double)d->p[i];
        if (d->p[i] > 0.0f) {
            token = i;
        }
        if (sum > u * total) {
            break;
        }
    }
    return token;
}

static void sample_task(void *arg, uint32_t i, uint32_t thread)
{
    struct sample_job *j = arg;
    const struct sample_row *row = &j->rows[i];
    const struct sampling *r = row->sampling;
    const struct cpu_lane *lane = &j->c->lanes[thread];
    uint32_t vocab = j->c->w->shape.vocab;
    const float *l = j->c->logits + (size_t)i * vocab;
    struct draw d = {l, lane->p, lane->ids, vocab, vocab};
    uint32_t best = best_of(l, vocab);

    cpu_tick(j->c);
    if (best == vocab) {
        atomic_store(&j->broken, i + 1);
        return;
    }
    if (r->temperature < KERNELS_TEMPERATURE_MIN) {
        j->out[i].token = best;
        return;
    }
    j->c->isa->weigh(d.p, l, l[best], 1.0f / r->temperature, vocab);
    if ((r->top_k > 0 && r->top_k < vocab) || r->top_p < 1.0f) {
        filter(&d, r);
    }
    j->out[i].token =
        pick(&d, philox_uniform(r->seed, row->choice, row->index));
}

enum status cpu_sample(struct kernels *k, const struct sample_row *rows,
                       uint32_t n, struct sample_result *out, struct error *e)
{
    struct cpu *c = cpu_of(k);
    struct sample_job j = {.c = c, .rows = rows, .out = out};
    uint32_t broken;

    atomic_init(&j.broken, 0);
    cpu_run(c, sample_task, &j, n, (size_t)n * c->w->shape.vocab * 8);
    broken = atomic_load(&j.broken);
    if (broken > 0) {
        return error_set(e, ST_INTERNAL,
                         "logits of row %u are not finite: the weights or "
                         "the row's cache are damaged",
                         broken - 1);
    }
    return ST_OK;
}
