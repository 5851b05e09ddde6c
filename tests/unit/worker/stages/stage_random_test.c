/* A stage under random streams: right ones never break it, and come out
 * complete and in order; a wrong number breaks the assembly with an error or
 * changes nothing, and everything is free again. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/stages/stage_bench.h"
#include "worker/stages/keeps.h"

#ifdef __SANITIZE_ADDRESS__
#define SEEDS 40
#else
#define SEEDS 200
#endif
#define OPS  60
#define LIVE 6

/* A sequence in the leader's view. */
struct seq {
    uint64_t grant; /* 0: none */
    uint32_t n_prompt, max_tokens, n_generated, planned;
    bool pending;             /* one of its tokens is being sampled */
    uint32_t drafts, keep_at; /* of its newest row */
};

struct leader {
    struct bench *b;
    struct seq seqs[LIVE];
    uint64_t dice;
    uint32_t lies;      /* one message in so many is wrong; 0: none */
    uint32_t n_here;    /* microbatches that have not come out */
    uint32_t n_said;    /* number of messages checked */
    uint64_t next_step; /* number that comes out next */
    struct keeps keeps;
    bool last; /* the stage is the last one */
    uint32_t n_drafts;
    bool lied;
};

static uint32_t roll(struct leader *l, uint32_t n)
{
    l->dice = l->dice * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((l->dice >> 33) % n);
}

static bool lies_now(struct leader *l)
{
    bool now = l->lies > 0 && roll(l, l->lies) == 0;

    l->lied = l->lied || now;
    return now;
}

/* Returns another number, often a near one. */
static uint32_t wrong(struct leader *l, uint32_t right)
{
    static const uint32_t far[] = {0, 1, 255, 65536, 2147483648u, 4294967295u};

    switch (roll(l, 3)) {
    case 0:
        return right + 1;
    case 1:
        return right - 1;
    default:
        return far[roll(l, sizeof far / sizeof *far)];
    }
}

static void lie_of_open(struct leader *l, struct bench_open *o)
{
    uint32_t *const at[] = {
        &o->m.n_prompt, &o->m.max_tokens,   &o->m.n_generated,  &o->blocks[0],
        &o->slots[0],   &o->checkpoints[0], &o->sampling.top_k, &o->windows[0],
    };
    size_t i;

    switch (roll(l, 4)) {
    case 0:
        o->m.grant = wrong(l, (uint32_t)o->m.grant);
        break;
    case 1:
        o->grants[0] = wrong(l, (uint32_t)o->grants[0]);
        break;
    default:
        i = roll(l, sizeof at / sizeof *at);
        o->sampling.has_top_k = true;
        *at[i] = wrong(l, *at[i]);
    }
}

static void open_one(struct leader *l, struct seq *s)
{
    struct bench_open o;

    *s = (struct seq){.n_prompt = 1 + roll(l, 40),
                      .max_tokens = 1 + roll(l, 20)};
    bench_open(l->b, &o, s->n_prompt, s->max_tokens);
    s->grant = l->b->grant;
    s->n_generated = o.m.n_generated = roll(l, s->max_tokens);
    if (roll(l, 3) == 0) {
        o.sampling.has_presence_penalty = true;
        o.sampling.presence_penalty = 1;
        o.m.n_tokens = s->n_prompt + s->n_generated; /* at most 60 */
    }
    if (lies_now(l)) {
        lie_of_open(l, &o);
    }
    bench_say(l->b, METHOD_STAGE_OPEN, &o.m.base);
}

/* Adds as many drafts as fit, or fewer.  A later stage finds most of them
 * wrong; what counts is the leader's to decide at another one. */
static void add_drafts(struct leader *l, struct bench_forward *f, struct seq *s)
{
    uint32_t left = s->max_tokens - s->n_generated - 1;
    uint32_t n = roll(l, DRAFTS_MAX + 1), ids[DRAFTS_MAX + 1];

    n = n < left ? n : left;
    if (n == 0 || f->n_tokens + n > 40 ||
        !keeps_take(&l->keeps, n + 1, &s->keep_at)) {
        return;
    }
    for (uint32_t i = 0; i <= n; i++) { /* a token is the x before it */
        ids[i] = (uint32_t)bench_x(f->m.step, f->n_tokens + i) - 2;
        ids[i] = (ids[i] + (roll(l, 3) == 0)) % BENCH_VOCAB;
    }
    s->drafts = n;
    l->n_drafts += n;
    bench_drafts(f, s->keep_at, ids, n);
}

/* The Result has come: as many drafts as the last stage accepted, or any
 * number. */
static void accept(struct leader *l, struct seq *s, uint32_t n_accepted)
{
    uint32_t n = l->last ? n_accepted : roll(l, s->drafts + 1);

    bench_accept(l->b, s->grant, lies_now(l) ? wrong(l, n + 1) : n + 1);
    keeps_free(&l->keeps, s->keep_at);
    s->drafts = 0;
    s->planned += n;
    s->n_generated += n;
}

/* Adds a random number of the next positions of s. */
static void add_row(struct leader *l, struct bench_forward *f, struct seq *s)
{
    uint32_t known = s->n_prompt + s->n_generated, left;
    bool generated = s->planned >= s->n_prompt;

    s->drafts = 0;
    left = (generated ? known : s->n_prompt) - s->planned;
    left = left > 7 ? 1 + roll(l, 7) : left;
    s->pending = s->planned + left == known;
    bench_row(f, s->grant, generated, s->planned, left,
              s->pending ? s->n_generated : UINT32_MAX);
    s->planned += left;
    if (generated && s->pending && left == 1) {
        add_drafts(l, f, s);
    }
}

static void lie_of_forward(struct leader *l, struct bench_forward *f)
{
    size_t i = roll(l, (uint32_t)f->m.n_grant);
    uint32_t *const at[] = {&f->position[i], &f->count[i],  &f->kind[i],
                            &f->index[i],    &f->drafts[i], &f->keep_at[0],
                            &f->propose[i],  &f->tokens[0]};
    size_t *const n[] = {&f->m.n_grant,  &f->m.n_position, &f->m.n_count,
                         &f->m.n_kind,   &f->m.n_index,    &f->m.n_device_us,
                         &f->m.n_drafts, &f->m.n_keep_at,  &f->m.n_propose,
                         &f->m.n_tokens, &f->m.n_next};
    size_t *which;

    switch (roll(l, 5)) {
    case 0:
        f->m.step = wrong(l, (uint32_t)f->m.step);
        break;
    case 1:
        f->grant[i] = wrong(l, (uint32_t)f->grant[i]);
        break;
    case 2:
        which = n[roll(l, sizeof n / sizeof *n)];
        *which += *which > 0 ? (size_t)-1 : 1;
        break;
    case 3:
        f->n_tokens = roll(l, 70);
        break;
    default:
        i = roll(l, sizeof at / sizeof *at);
        *at[i] = wrong(l, *at[i]);
    }
}

static void forward(struct leader *l)
{
    struct bench_forward f;

    if (l->n_here == l->b->n_stages) {
        return;
    }
    bench_begin(l->b, &f);
    for (int i = 0; i < LIVE; i++) {
        struct seq *s = &l->seqs[i];

        if (s->grant != 0 && !s->pending && s->n_generated < s->max_tokens &&
            roll(l, 2) == 0) {
            add_row(l, &f, s);
        }
    }
    if (f.m.n_grant == 0) {
        l->b->step--;
        return;
    }
    if (lies_now(l)) {
        lie_of_forward(l, &f);
    }
    l->n_here++;
    bench_send(l->b, &f);
}

static void remove_one(struct leader *l, struct seq *s)
{
    uint64_t grant = lies_now(l) ? wrong(l, (uint32_t)s->grant) : s->grant;

    bench_remove(l->b, grant);
    if (s->drafts > 0) {
        keeps_free(&l->keeps, s->keep_at);
    }
    s->grant = s->drafts = 0;
}

/* Checks the stage's output: microbatches in order. */
static void look(struct leader *l)
{
    struct bench *b = l->b;

    for (; l->n_said < b->n_said; l->n_said++) {
        const struct bench_said *s = &b->said[l->n_said];

        if (s->method != METHOD_STAGE_FORWARD &&
            s->method != METHOD_STAGE_RESULT) {
            continue;
        }
        l->n_here--;
        if (!l->lied) {
            assert_int_equal(s->step, l->next_step);
        }
        l->next_step++;
    }
}

/* The oldest microbatch has gone round: its tokens are known. */
static void run(struct leader *l)
{
    const struct plan *p = l->b->plan;
    bool came[LIVE] = {false};
    uint32_t row[LIVE] = {0};

    if (p == NULL) {
        return;
    }
    for (uint32_t i = 0; i < p->n_rows; i++) {
        for (int k = 0; k < LIVE && p->rows[i].sample; k++) {
            struct seq *s = &l->seqs[k];

            if (s->grant != 0 && s->pending &&
                p->rows[i].position + p->rows[i].n_tokens - s->drafts ==
                    s->planned &&
                p->rows[i].index == s->n_generated &&
                p->rows[i].n_drafts == s->drafts) {
                came[k] = true;
                row[k] = i;
            }
        }
    }
    bench_run(l->b);
    look(l);
    for (int k = 0; k < LIVE; k++) {
        struct seq *s = &l->seqs[k];

        if (came[k]) {
            s->pending = false;
            s->n_generated++;
        }
        if (came[k] && s->drafts > 0 && l->b->n_broken == 0) {
            accept(l, s, l->b->result.n_accepted[row[k]]);
        }
    }
}

static void begin(struct leader *l)
{
    while (bench_run(l->b)) {
    }
    bench_assemble(l->b);
    memset(l->seqs, 0, sizeof l->seqs);
    keeps_init(&l->keeps, BENCH_KEEP);
    l->n_here = 0;
    l->b->n_said = l->n_said = 0;
    l->next_step = 1;
    l->lied = false;
}

static void one_op(struct leader *l)
{
    struct seq *s = &l->seqs[roll(l, LIVE)];

    switch (roll(l, 4)) {
    case 0:
        if (s->grant == 0) {
            open_one(l, s);
        } else if (roll(l, 3) == 0) {
            remove_one(l, s);
        }
        break;
    case 1:
        forward(l);
        break;
    default:
        run(l);
    }
    look(l);
}

/* Every other model has windows, and the leader's rows are of at most 7. */
static struct bench *make(uint64_t seed)
{
    bool last = seed % 2 == 0;
    struct worker_options o;

    bench_options(&o, last);
    if (seed / 2 % 2 == 1) {
        o.window = 2 + (uint32_t)seed % 19;
        o.pool.window_pages = 1 + (uint32_t)seed % 3;
        o.chunk_tokens = 7;
        o.pool.n_pages += 200;
    }
    return bench_new_with(&o, last);
}

static void run_seed(uint64_t seed, uint32_t lies, uint32_t *n_broken)
{
    struct leader l = {
        .b = make(seed), .dice = seed, .lies = lies, .last = seed % 2 == 0};

    begin(&l);
    l.b->astray = lies > 0;
    for (int i = 0; i < OPS; i++) {
        one_op(&l);
        if (l.b->n_broken > 0) {
            if (!l.lied) {
                fail_msg("seed %llu: %s", (unsigned long long)seed, l.b->why);
            }
            assert_true(l.b->why[0] != '\0');
            l.b->n_broken = 0;
            (*n_broken)++;
            begin(&l);
        }
    }
    if (lies == 0) {
        while (l.b->plan != NULL) {
            run(&l);
        }
        assert_int_equal(l.n_here, 0);
        assert_true(seed > 1 || l.n_drafts > 0);
    }
    bench_free(&l.b);
}

static void a_right_stream_holds(void **state)
{
    uint32_t n_broken = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run_seed(seed, 0, &n_broken);
    }
    assert_int_equal(n_broken, 0);
}

static void a_lie_ends_it(void **state)
{
    uint32_t n_broken = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run_seed(seed, 8, &n_broken);
    }
    assert_true(n_broken > SEEDS / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_right_stream_holds),
        cmocka_unit_test(a_lie_ends_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
