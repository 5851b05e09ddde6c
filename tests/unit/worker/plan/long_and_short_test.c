/* Long and short prompts on one worker, in virtual time: the device takes BASE
 * for a step, ROW for each generated token and PROMPT for each other one. */
#include <stdlib.h>

#include "tests/unit/worker/plan/batcher_bench.h"

#define LONG   3800
#define LONGS  8
#define SHORT  48
#define SHORTS 16 /* at most */
#define N      (LONGS + SHORTS)

struct device {
    int64_t base_us, row_us, prompt_us;
    uint32_t step_tokens, chunk_tokens;
    uint32_t n_short;
    int64_t p50_times; /* of the time alone, at most */
};

/* An arrival, and when its first and its last token came. */
struct arrival {
    struct sequence *s;
    uint32_t n_prompt, max_tokens;
    int64_t at_us, first_us, end_us;
};

struct run {
    struct device device;
    struct batcher *b;
    struct arrival all[N];
    uint32_t n, n_joined;
    int64_t now_us, gap_us; /* the longest step that delayed decode */
};

static void join(struct run *r)
{
    while (r->n_joined < r->n && r->all[r->n_joined].at_us <= r->now_us) {
        struct arrival *a = &r->all[r->n_joined++];

        a->s = bench_line_up(a->n_prompt, 0, a->max_tokens);
    }
}

static void leave(struct run *r)
{
    for (uint32_t i = 0; i < r->n_joined; i++) {
        struct arrival *a = &r->all[i];

        if (a->s == NULL || a->s->portable.n_generated == 0) {
            continue;
        }
        a->first_us = a->first_us > 0 ? a->first_us : r->now_us;
        if (a->s->portable.n_generated == a->max_tokens) {
            a->end_us = r->now_us;
            batcher_drop(r->b, a->s);
            sequence_release(&bench.table, a->s);
            sequence_free(&bench.table, &a->s);
        }
    }
}

static void step(struct run *r)
{
    const struct batch *t;
    int64_t us;
    bool decodes = r->b->decode.n > 0;

    if (batcher_plan(r->b) == NULL) {
        r->now_us = r->all[r->n_joined].at_us;
        return;
    }
    t = batcher_oldest(r->b);
    us = r->device.base_us + r->device.row_us * t->n_decode_tokens +
         r->device.prompt_us * (t->plan.n_tokens - t->n_decode_tokens);
    r->now_us += us;
    r->gap_us = decodes && us > r->gap_us ? us : r->gap_us;
    batcher_learn(r->b, t, (uint32_t)us);
    bench_back(r->b);
    leave(r);
}

static bool is_over(const struct run *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        if (r->all[i].end_us == 0) {
            return false;
        }
    }
    return true;
}

/* A device that has run steps of all sizes before. */
static void learn(struct step_cost *c, const struct device *d)
{
    for (uint32_t i = 1; i <= 64; i++) {
        uint32_t rows = i % 4, prompts = d->step_tokens * (i % 8) / 8;

        step_cost_note(
            c, rows, prompts,
            (uint32_t)(d->base_us + d->row_us * rows + d->prompt_us * prompts));
    }
}

static void run(struct run *r, const struct device *d, bool bounded,
                uint32_t target_us)
{
    r->device = *d;
    r->b = bench_with(64, d->step_tokens, d->chunk_tokens, 1);
    step_room_init(&r->b->room, bounded, target_us);
    learn(&r->b->room.cost, d);
    while (!is_over(r)) {
        join(r);
        step(r);
    }
    bench_done();
}

/* The last end of the long ones, from their arrival. */
static int64_t long_us(const struct run *r)
{
    int64_t us = 0;

    for (uint32_t i = 0; i < r->n; i++) {
        if (r->all[i].n_prompt == LONG && r->all[i].end_us > us) {
            us = r->all[i].end_us;
        }
    }
    return us;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

/* The times of the short ones to their first token, in order. */
static uint32_t waits(const struct run *r, int64_t out[N])
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->n; i++) {
        if (r->all[i].n_prompt == SHORT) {
            out[n++] = r->all[i].first_us - r->all[i].at_us;
        }
    }
    qsort(out, n, sizeof *out, compare);
    return n;
}

static void add(struct run *r, uint32_t n_prompt, uint32_t max_tokens,
                int64_t at_us)
{
    r->all[r->n++] = (struct arrival){
        .n_prompt = n_prompt, .max_tokens = max_tokens, .at_us = at_us};
}

/* The long ones at once, the short ones while they are computed. */
static void interleave(struct run *r, uint32_t n_short, int64_t every_us)
{
    uint64_t x = 7;

    *r = (struct run){.n = 0};
    for (uint32_t i = 0; i < LONGS; i++) {
        add(r, LONG, 1, 0);
    }
    for (uint32_t i = 0; i < n_short; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        add(r, SHORT, 1,
            every_us * (i + 1) + (int64_t)(x >> 33) % (every_us / 2));
    }
}

/* The devices of a small CPU, and of a GPU, whose steps are mostly base: a
 * short prompt alone takes nearly as long as the base. */
static const struct device devices[] = {{10000, 100, 500, 512, 256, 16, 3},
                                        {10000, 100, 20, 2048, 1024, 4, 4}};

/* Returns how long whole steps take for the long ones alone. */
static int64_t whole_us(const struct device *d)
{
    static struct run r;

    r = (struct run){.n = 0};
    for (uint32_t i = 0; i < LONGS; i++) {
        add(&r, LONG, 1, 0);
    }
    run(&r, d, false, 0);
    return long_us(&r);
}

static void short_prompts_do_not_wait_for_long_ones(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        static struct run r;
        const struct device *d = &devices[i];
        int64_t alone = d->base_us + d->prompt_us * SHORT, us[N];
        int64_t whole = whole_us(d);
        uint32_t n;

        interleave(&r, d->n_short, whole / (d->n_short + 1));
        run(&r, d, true, 0);
        n = waits(&r, us);
        assert_true(us[n / 2] <= d->p50_times * alone);
        assert_true(us[n - 1] <= 6 * alone);
        assert_true(long_us(&r) <= whole * 11 / 10 + n * alone);
    }
}

/* Sequences that decode beside the long ones wait for no step beyond the
 * target; without one they do. */
static void decode_waits_for_the_target_at_most(void **state)
{
    const struct device *d = &devices[0];
    const int64_t target = 60000;

    (void)state;
    for (int bounded = 0; bounded <= 1; bounded++) {
        static struct run r;

        r = (struct run){.n = 0};
        for (uint32_t i = 0; i < 4; i++) {
            add(&r, SHORT, 300, 0);
        }
        for (uint32_t i = 0; i < 3; i++) {
            add(&r, LONG, 1, 1);
        }
        run(&r, d, bounded > 0, bounded > 0 ? (uint32_t)target : 0);
        if (bounded > 0) {
            assert_true(r.gap_us <= target + target / 50);
        } else {
            assert_true(r.gap_us > 2 * target);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_prompts_do_not_wait_for_long_ones),
        cmocka_unit_test(decode_waits_for_the_target_at_most),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
