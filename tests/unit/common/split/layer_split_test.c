/* The planner of splits, compared with all possible ways and with results by
 * hand. */
#include "common/split/layer_split.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/cmocka.h"

#define GIB (UINT64_C(1) << 30)
#define U   64 /* bytes: pages are aligned to as many */

static struct split_table table;
static struct split_model model;
static struct split_worker workers[STAGES_MAX + 1];
static struct split_terms terms;
static struct split got;
static struct error e;

/* n layers of 100 units: every fourth is attention (1 unit per token), the
 * others are linear (20 units per sequence).  Contexts of 64 tokens, blocks
 * of 4. */
static void layers(uint32_t n)
{
    memset(&model, 0, sizeof model);
    model.n_layers = n;
    for (uint32_t i = 0; i < n; i++) {
        model.layers[i].weight_bytes = 100 * U;
        model.layers[i].token_bytes = i % 4 == 3 ? U : 0;
        model.layers[i].slot_bytes = i % 4 == 3 ? 0 : 20 * U;
    }
    terms = (struct split_terms){
        .block_tokens = 4, .context = 64, .max_rows = 8, .length = 64};
}

/* Gives each of n workers a budget of so many units. */
static void give(uint32_t n, uint64_t budget)
{
    for (uint32_t i = 0; i < n; i++) {
        workers[i] = (struct split_worker){
            .name = "w", .budget_bytes = budget * U, .speed = 1};
    }
}

static enum status find(uint32_t n)
{
    return split_find(&got, &table, &model, workers, n, &terms, &e);
}

static void boundaries(uint32_t n, const uint32_t *ends)
{
    assert_int_equal(got.n_stages, n);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(got.stages[i].begin, i == 0 ? 0 : ends[i - 1]);
        assert_int_equal(got.stages[i].end, ends[i]);
    }
}

/* ---- all ways ---- */

struct best {
    bool fits;
    double time, even;
    uint64_t sequences;
    uint64_t lacks; /* if none fits */
};

struct way {
    uint32_t n, used; /* number of stages; one bit per worker */
    double time, even;
    uint64_t sequences, lacks;
};

/* Bytes that some layers store: of a token, of a slot, of a token in one window
 * layer, and the window layers. */
struct stored {
    uint64_t token, slot, window;
    uint32_t n_window;
};

/* Pages of some layers, counted without the functions that are tested. */
struct pages {
    uint64_t bytes;                 /* of a page */
    uint64_t slot, blocks, windows; /* pages of a slot, and of a length */
};

static uint64_t window_pages(const struct stored *x, uint64_t page,
                             uint32_t length)
{
    uint64_t one = x->window * terms.block_tokens, per_page = page / one;
    uint64_t tables = (x->n_window + per_page - 1) / per_page, all = 0;
    uint64_t most = 1;

    while (all * terms.block_tokens < length) {
        all++;
    }
    while ((most - 1) * terms.block_tokens <
           terms.window_tokens + terms.chunk_tokens) {
        most++;
    }
    return tables * (all < most ? all : most);
}

static struct pages pages_of(const struct stored *x, uint32_t length)
{
    uint64_t window = x->n_window > 0 ? x->window * terms.block_tokens : 0;
    struct pages p = {.bytes = x->token * terms.block_tokens};

    if (x->token == 0) {
        p.bytes = window > 0 ? window * x->n_window : x->slot;
    } else if (p.bytes < window) {
        p.bytes = window;
    }
    while (p.slot * p.bytes < x->slot) {
        p.slot++;
    }
    while (x->token > 0 && p.blocks * terms.block_tokens < length) {
        p.blocks++;
    }
    if (window > 0) {
        p.windows = window_pages(x, p.bytes, length);
    }
    return p;
}

static uint64_t sequences_of(uint64_t room, const struct stored *x)
{
    struct pages p = pages_of(x, terms.length);
    uint64_t n = room / p.bytes / (p.slot + p.blocks + p.windows);
    uint64_t cap = terms.slots > 0 ? terms.slots : terms.max_rows;

    return x->slot > 0 && cap < n ? cap : n;
}

/* Extends a way by one stage. */
static struct way longer(const struct way *w, uint32_t worker, uint32_t begin,
                         uint32_t end)
{
    const struct split_worker *at = &workers[worker];
    struct way next = *w;
    struct stored x = {0};
    uint64_t weights = 0, kept = 0, step, need;
    struct pages p;
    double time;

    for (uint32_t i = begin; i < end; i++) {
        weights += model.layers[i].weight_bytes;
        x.token += model.layers[i].token_bytes;
        x.slot += model.layers[i].slot_bytes;
        kept += model.layers[i].kept_bytes;
        x.n_window += model.layers[i].window_bytes > 0;
        x.window = model.layers[i].window_bytes > 0
                       ? model.layers[i].window_bytes
                       : x.window;
    }
    if (end == model.n_layers) {
        weights += model.mtp.weight_bytes + model.head_bytes;
        x.token += model.mtp.token_bytes;
    }
    step = weights;
    weights = step + (begin == 0 ? model.embed_bytes : 0);
    if (begin == 0 && end == model.n_layers) {
        weights -= model.shared_bytes;
    }
    weights += at->scratch_bytes + kept;
    weights += end == model.n_layers ? model.head_scratch_bytes
                                     : model.hidden_scratch_bytes;
    p = pages_of(&x, terms.context);
    need = weights + (p.slot + p.blocks + p.windows) * p.bytes;
    next.n++;
    next.used |= 1u << worker;
    time = (double)step / at->speed;
    next.time = fmax(next.time, time);
    next.even += time * time;
    if (need > at->budget_bytes) {
        uint64_t lacks = need - at->budget_bytes;

        next.lacks = lacks > next.lacks ? lacks : next.lacks;
    } else {
        uint64_t fit = sequences_of(at->budget_bytes - weights, &x);

        next.sequences = fit < next.sequences ? fit : next.sequences;
    }
    return next;
}

static void compare(struct best *b, const struct way *w)
{
    if (w->lacks > 0) {
        b->lacks = w->lacks < b->lacks ? w->lacks : b->lacks;
        return;
    }
    if (!b->fits || w->time < b->time ||
        (w->time <= b->time &&
         (w->sequences > b->sequences ||
          (w->sequences == b->sequences && w->even < b->even)))) {
        *b = (struct best){.fits = true,
                           .time = w->time,
                           .even = w->even,
                           .sequences = w->sequences};
    }
}

static void every_way(struct best *b, const struct way *w, uint32_t begin,
                      uint32_t n_workers, uint32_t n_stages)
{
    for (uint32_t k = 0; k < n_workers; k++) {
        if ((w->used >> k & 1) != 0 || (terms.in_order && k != w->n)) {
            continue;
        }
        for (uint32_t end = begin + 1; end <= model.n_layers; end++) {
            struct way next = longer(w, k, begin, end);

            if (next.n == n_stages && end == model.n_layers) {
                compare(b, &next);
            } else if (next.n < n_stages && end < model.n_layers) {
                every_way(b, &next, end, n_workers, n_stages);
            }
        }
    }
}

/* ---- random instances ---- */

static uint64_t dice = 1;

static uint32_t roll(uint32_t below)
{
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(dice >> 33) % below;
}

static void random_instance(uint32_t n_workers)
{
    uint32_t kinds = 1 + roll(3); /* linear, attention, both */
    uint32_t round_kind = roll(4);
    uint64_t window = roll(2) == 0 ? (1 + roll(3)) * U : 0;

    layers(n_workers + roll(7 - n_workers));
    terms.block_tokens = 1 + roll(5);
    terms.context = 1 + roll(40);
    terms.max_rows = 1 + roll(6);
    terms.slots = roll(3) == 0 ? 1 + roll(4) : 0;
    terms.length = 1 + roll(terms.context);
    terms.in_order = roll(4) == 0;
    terms.n_stages = roll(3) == 0 ? 1 + roll(n_workers) : 0;
    terms.window_tokens = 1 + roll(20);
    terms.chunk_tokens = 1 + roll(10);
    for (uint32_t i = 0; i < model.n_layers; i++) {
        bool attention = kinds == 2 || (kinds == 3 && roll(2) == 0);

        model.layers[i] = (struct split_layer){
            .weight_bytes = (20 + roll(3) * roll(20)) * U,
            .token_bytes = attention ? (1 + roll(2)) * U : 0,
            .slot_bytes = attention ? 0 : (5 + roll(10)) * U,
        };
        if (window > 0 && roll(2) == 0) {
            model.layers[i].token_bytes = model.layers[i].slot_bytes = 0;
            model.layers[i].window_bytes = window;
        }
        /* The smallest stages, whose slots a larger page rounds up by less. */
        if (round_kind == 0) {
            model.layers[i].weight_bytes = 1 + roll(U);
        }
    }
    if (roll(3) == 0) {
        model.mtp.weight_bytes = (1 + roll(60)) * U;
        model.mtp.token_bytes = (1 + roll(2)) * U;
        for (uint32_t i = 0; i < model.n_layers; i++) {
            bool linear = model.layers[i].slot_bytes > 0;

            model.layers[i].kept_bytes = linear ? 1 + roll(9) * U : 0;
        }
    }
    model.embed_bytes = roll(60) * U;
    model.head_bytes = roll(60) * U;
    model.shared_bytes = model.embed_bytes < model.head_bytes && roll(2) == 0
                             ? model.embed_bytes
                             : 0;
    model.head_scratch_bytes = roll(10) * U;
    model.hidden_scratch_bytes = roll(10) * U;
    for (uint32_t i = 0; i < n_workers; i++) {
        workers[i] = i > 0 && roll(3) == 0
                         ? workers[roll(i)]
                         : (struct split_worker){
                               .name = "w",
                               .budget_bytes = (60 + roll(350)) * U,
                               .scratch_bytes = roll(10) * U,
                               .speed = roll(2) == 0 ? 1 : 1 + roll(3)};
    }
}

/* Recomputes what a split reports about itself. */
static void agrees(const struct best *b, uint32_t n_workers)
{
    struct way w = {.sequences = UINT64_MAX};
    double shares = 0;
    uint32_t stage, begin = 0;

    for (uint32_t i = 0; i < got.n_stages; i++) {
        const struct split_stage *g = &got.stages[i];

        assert_true(g->worker < n_workers && (w.used >> g->worker & 1) == 0);
        assert_true(g->begin == begin && g->end > begin);
        w = longer(&w, g->worker, g->begin, g->end);
        begin = g->end;
        shares += g->step_share;
        assert_true(g->weight_bytes + g->scratch_bytes + g->pool.bytes <=
                    workers[g->worker].budget_bytes);
    }
    assert_int_equal(begin, model.n_layers);
    assert_true(w.lacks == 0 && fabs(shares - 1) < 1e-9);
    assert_true(w.time <= b->time && w.time >= b->time);
    assert_int_equal(w.sequences, b->sequences);
    assert_int_equal(split_sequences(&got, terms.length, &stage), b->sequences);
    assert_true(fabs(w.even - b->even) < 1e-9 * b->even);
}

static void finds_the_best_of_all_ways(void **state)
{
    unsigned fits = 0, lacks = 0;

    (void)state;
    for (int round = 0; round < 3000; round++) {
        uint32_t n = 1 + roll(4);
        struct best b = {.lacks = UINT64_MAX};
        struct way none = {.sequences = UINT64_MAX};
        enum status st;

        random_instance(n);
        st = find(n);
        every_way(&b, &none, 0, n, terms.n_stages > 0 ? terms.n_stages : n);
        if (b.fits) {
            assert_int_equal(st, ST_OK);
            agrees(&b, n);
            fits++;
        } else {
            char missing[64];

            snprintf(missing, sizeof missing, ": %llu bytes are missing",
                     (unsigned long long)b.lacks);
            assert_int_equal(st, ST_RESOURCE_EXHAUSTED);
            assert_non_null(strstr(e.text, missing));
            lacks++;
        }
    }
    assert_true(fits > 500 && lacks > 500);
}

/* ---- by hand ---- */

static void shares_equal_layers_evenly(void **state)
{
    (void)state;
    layers(12);
    give(3, 10000);
    assert_int_equal(find(3), ST_OK);
    boundaries(3, (uint32_t[]){4, 8, 12});
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(got.stages[i].worker, i);
        assert_true(fabs(got.stages[i].step_share - 1.0 / 3) < 1e-12);
    }
    layers(3);
    assert_int_equal(find(3), ST_OK);
    boundaries(3, (uint32_t[]){1, 2, 3}); /* one layer per stage */
}

/* A head of 310 units takes the time of three layers; an embedding takes
 * none. */
static void counts_the_head_and_not_the_embedding(void **state)
{
    (void)state;
    layers(9);
    model.embed_bytes = 300 * U;
    model.head_bytes = 310 * U;
    give(2, 10000);
    assert_int_equal(find(2), ST_OK);
    boundaries(2, (uint32_t[]){6, 9});
    assert_int_equal(got.stages[0].weight_bytes, 900 * U);
    assert_int_equal(got.stages[0].step_bytes, 600 * U);
    assert_int_equal(got.stages[1].weight_bytes, 610 * U);
    assert_int_equal(got.stages[1].step_bytes, 610 * U);
}

static void holds_a_tied_head_once_on_one_stage(void **state)
{
    (void)state;
    layers(4);
    model.embed_bytes = 300 * U;
    model.head_bytes = 310 * U;
    model.shared_bytes = 300 * U;
    give(2, 10000);
    assert_int_equal(find(1), ST_OK);
    assert_int_equal(got.stages[0].weight_bytes, (400 + 310) * U);
    assert_int_equal(got.stages[0].step_bytes, (400 + 310) * U);
    assert_int_equal(find(2), ST_OK);
    assert_int_equal(got.stages[0].weight_bytes + got.stages[1].weight_bytes,
                     (400 + 610) * U);
}

/* The large worker is the third; in the given order too few layers are left
 * for it. */
static void orders_unlike_workers(void **state)
{
    (void)state;
    layers(8);
    model.embed_bytes = 500 * U;
    give(3, 600);
    workers[2].budget_bytes = 1100 * U;
    assert_int_equal(find(3), ST_OK);
    assert_true(got.every_order);
    assert_int_equal(got.stages[0].worker, 2);
    assert_int_equal(got.stages[1].worker, 0);
    assert_int_equal(got.stages[2].worker, 1);
    terms.in_order = true;
    assert_int_equal(find(3), ST_RESOURCE_EXHAUSTED);
}

static void gives_the_fast_worker_more(void **state)
{
    (void)state;
    layers(8);
    give(2, 10000);
    workers[0].speed = 3;
    assert_int_equal(find(2), ST_OK);
    boundaries(2, (uint32_t[]){6, 8});
    assert_true(fabs(got.stages[0].step_share - 0.5) < 1e-12);
}

static void takes_the_best_workers_of_more(void **state)
{
    (void)state;
    layers(4);
    give(4, 100);
    workers[1].budget_bytes = workers[3].budget_bytes = 1000 * U;
    terms.n_stages = 2;
    assert_int_equal(find(4), ST_OK);
    assert_int_equal(got.stages[0].worker, 1);
    assert_int_equal(got.stages[1].worker, 3);
}

/* Layers 0-2 are linear, 3 is attention: one stage of each kind. */
static void knows_stages_of_one_kind(void **state)
{
    uint32_t stage;

    (void)state;
    layers(4);
    give(2, 10000);
    workers[0].speed = 3;
    terms.in_order = true;
    assert_int_equal(find(2), ST_OK);
    boundaries(2, (uint32_t[]){3, 4});
    assert_int_equal(got.stages[0].need.pages_per_slot, 1);
    assert_int_equal(got.stages[0].need.pages_per_block, 0);
    assert_int_equal(got.stages[0].pool.n_pages, (10000 - 300) / 60);
    assert_int_equal(got.stages[0].pool.slot_cap, 8);
    assert_int_equal(got.stages[1].need.pages_per_slot, 0);
    assert_int_equal(got.stages[1].need.pages_per_block, 1);
    assert_int_equal(got.stages[1].pool.n_pages, (10000 - 100) / 4);
    assert_int_equal(got.stages[1].pool.slot_cap, 0);
    assert_int_equal(split_sequences(&got, 64, &stage), 8);
    assert_int_equal(stage, 0);
    assert_int_equal(split_sequences(&got, 1, &stage), 8);
    assert_int_equal(split_stage_sequences(&got.stages[1], 64), 9900 / 64);
}

/* A slot of 60 units is 15 pages of 4; one more unit takes a page more. */
static void counts_pages_of_both_kinds(void **state)
{
    (void)state;
    layers(4);
    give(1, 10000);
    assert_int_equal(find(1), ST_OK);
    assert_int_equal(got.stages[0].need.page_bytes, 4 * U);
    assert_int_equal(got.stages[0].need.pages_per_slot, 15);
    assert_int_equal(got.stages[0].pool.n_pages, 9600 / 4);
    assert_int_equal(got.stages[0].token_bytes, U);
    assert_int_equal(got.stages[0].slot_bytes, 60 * U);
    model.layers[0].slot_bytes++;
    assert_int_equal(find(1), ST_OK);
    assert_int_equal(got.stages[0].need.pages_per_slot, 16);
}

/* 4 layers of 100 units, scratch 7, a slot of 60 and 16 blocks of 4. */
static void says_what_is_missing_where(void **state)
{
    (void)state;
    layers(4);
    give(1, 400 + 7 + 60 + 64);
    workers[0].name = "b\n";
    workers[0].scratch_bytes = 7 * U;
    assert_int_equal(find(1), ST_OK);
    assert_int_equal(got.stages[0].pool.n_pages, 15 + 16);
    workers[0].budget_bytes--;
    assert_int_equal(find(1), ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(e.text, "layers 0-4 need 0.03 MiB"));
    assert_non_null(strstr(e.text, "worker \"b\\x0a\" has"));
    assert_non_null(strstr(e.text, ": 1 bytes are missing"));
    layers(4);
    model.layers[2].weight_bytes = 5 * GIB + GIB / 2;
    give(2, 4 * GIB / U);
    assert_int_equal(find(2), ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(e.text, "layers 2-4 need 5.50 GiB"));
    assert_non_null(strstr(e.text, "has 4.00 GiB"));
}

/* A second attention layer makes the pages larger, so that the slot of 5 units
 * takes 1 page of 5 in place of 2 of 4: the stage with more layers fits where
 * the one with fewer does not. */
static void more_layers_may_fit_where_fewer_do_not(void **state)
{
    (void)state;
    layers(4);
    terms.block_tokens = terms.context = terms.length = 1;
    model.layers[0] =
        (struct split_layer){.weight_bytes = 1, .slot_bytes = 5 * U};
    model.layers[1] =
        (struct split_layer){.weight_bytes = 1, .token_bytes = 4 * U};
    model.layers[2] = (struct split_layer){.weight_bytes = 1, .token_bytes = U};
    model.layers[3] = (struct split_layer){.weight_bytes = 1, .token_bytes = U};
    give(2, 11);
    workers[1].budget_bytes = 1 + U; /* the last layer, and no more */
    assert_int_equal(find(2), ST_OK);
    boundaries(2, (uint32_t[]){3, 4});
    assert_int_equal(got.stages[0].need.pages_per_slot, 1);
    assert_int_equal(got.stages[0].pool.n_pages, 2);
    /* Layers 0 and 1 need 12 units and 2 bytes, 0 to 2 just 10 and 3. */
    workers[0].budget_bytes = 10 * U + 3;
    assert_int_equal(find(2), ST_OK);
    workers[0].budget_bytes--;
    assert_int_equal(find(2), ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(e.text, ": 1 bytes are missing"));
}

/* By bytes held, two layers each would be even. */
static void balances_what_a_step_reads(void **state)
{
    (void)state;
    layers(4);
    model.layers[2].step_bytes = model.layers[3].step_bytes = 10 * U;
    give(2, 10000);
    assert_int_equal(find(2), ST_OK);
    boundaries(2, (uint32_t[]){1, 4});
    assert_int_equal(got.stages[1].weight_bytes, 300 * U);
    assert_int_equal(got.stages[1].step_bytes, 120 * U);
    /* Memory decides what is possible all the same. */
    give(2, 290);
    assert_int_equal(find(2), ST_OK);
    boundaries(2, (uint32_t[]){2, 4});
}

static void refuses_more_stages_than_there_can_be(void **state)
{
    (void)state;
    layers(3);
    give(4, 10000);
    assert_int_equal(find(4), ST_INVALID_ARGUMENT);
    assert_string_equal(e.text,
                        "4 stages of a model of 3 layers: each needs one at "
                        "least");
    terms.n_stages = 3;
    assert_int_equal(find(4), ST_OK);
    assert_int_equal(find(2), ST_INVALID_ARGUMENT);
    assert_string_equal(e.text, "3 stages, and 2 workers for them");
}

static void stays_within_its_limits(void **state)
{
    (void)state;
    layers(MODEL_LAYERS_MAX);
    give(STAGES_MAX + 1, GIB / U);
    assert_int_equal(find(STAGES_MAX), ST_OK);
    assert_int_equal(got.stages[15].end, MODEL_LAYERS_MAX);
    assert_int_equal(got.stages[15].begin, MODEL_LAYERS_MAX - 32);
    assert_int_equal(find(STAGES_MAX + 1), ST_INVALID_ARGUMENT);
    assert_int_equal(find(0), ST_INVALID_ARGUMENT);
    model.n_layers++;
    assert_int_equal(find(1), ST_INVALID_ARGUMENT);
    model.n_layers = 0;
    assert_int_equal(find(1), ST_INVALID_ARGUMENT);
}

/* 8 workers that all differ have 256 states, 9 have 512. */
static void says_when_it_keeps_the_order(void **state)
{
    (void)state;
    layers(16);
    give(9, 10000);
    for (uint32_t i = 0; i < 9; i++) {
        workers[i].budget_bytes += i;
    }
    assert_int_equal(find(8), ST_OK);
    assert_true(got.every_order);
    assert_int_equal(find(9), ST_OK);
    assert_false(got.every_order);
    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(got.stages[i].worker, i);
    }
    give(9, 10000);
    terms.in_order = true;
    assert_int_equal(find(9), ST_OK);
    assert_true(got.every_order); /* there is only one order */
}

/* Each number at its limit and one past it. */
static void trusts_no_number(void **state)
{
    const struct {
        uint64_t *number, limit;
        enum status at_it;
    } rows[] = {
        {&model.layers[1].weight_bytes, SHARD_BYTES_MAX, ST_RESOURCE_EXHAUSTED},
        {&model.layers[1].step_bytes, 100 * U, ST_OK}, /* its weights */
        {&model.layers[1].slot_bytes, SHARD_BYTES_MAX, ST_RESOURCE_EXHAUSTED},
        {&model.layers[3].token_bytes, SHARD_BYTES_MAX / 68,
         ST_RESOURCE_EXHAUSTED},
        {&model.layers[1].kept_bytes, SHARD_BYTES_MAX, ST_RESOURCE_EXHAUSTED},
        {&model.mtp.weight_bytes, SHARD_BYTES_MAX, ST_RESOURCE_EXHAUSTED},
        {&model.mtp.token_bytes, SHARD_BYTES_MAX / 68, ST_RESOURCE_EXHAUSTED},
        {&model.mtp.step_bytes, 0, ST_OK}, /* its weights */
        {&model.embed_bytes, SHARD_BYTES_MAX, ST_RESOURCE_EXHAUSTED},
        {&model.head_bytes, SHARD_BYTES_MAX, ST_RESOURCE_EXHAUSTED},
        {&model.head_scratch_bytes, SHARD_BYTES_MAX, ST_RESOURCE_EXHAUSTED},
        {&model.shared_bytes, 0, ST_OK},
        {&workers[0].scratch_bytes, SHARD_BYTES_MAX, ST_RESOURCE_EXHAUSTED},
        {&workers[0].budget_bytes, SHARD_BYTES_MAX, ST_OK},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        layers(4);
        give(1, 10000);
        *rows[i].number = rows[i].limit;
        assert_int_equal(find(1), rows[i].at_it);
        *rows[i].number = rows[i].limit + 1;
        assert_int_equal(find(1), ST_INVALID_ARGUMENT);
    }
    for (int i = 0; i < 6; i++) {
        static const double speeds[] = {0, -1, 1e-7, 1e19, INFINITY, NAN};

        layers(4);
        give(1, 10000);
        workers[0].speed = speeds[i];
        assert_int_equal(find(1), ST_INVALID_ARGUMENT);
    }
    for (int i = 0; i < 4; i++) {
        uint32_t *const numbers[] = {&terms.block_tokens, &terms.context,
                                     &terms.max_rows, &terms.length};

        layers(4);
        *numbers[i] = 0;
        give(1, 10000);
        assert_int_equal(find(1), ST_INVALID_ARGUMENT);
    }
    layers(4);
    model.layers[2] = (struct split_layer){.weight_bytes = 1};
    assert_int_equal(find(1), ST_INVALID_ARGUMENT);
}

/* Two stages of 8 layers: one layer moves away from the MTP layer. */
static void counts_the_mtp_layer_in_the_last_stage(void **state)
{
    const uint32_t even[] = {4, 8}, drafting[] = {5, 8};
    struct split_stage last;

    (void)state;
    layers(8);
    give(2, 10000);
    assert_int_equal(find(2), ST_OK);
    boundaries(2, even);
    model.mtp.weight_bytes = 150 * U;
    model.mtp.token_bytes = U;
    for (uint32_t i = 0; i < 8; i++) {
        model.layers[i].kept_bytes = i % 4 == 3 ? 0 : 7 * U;
    }
    assert_int_equal(find(2), ST_OK);
    boundaries(2, drafting);
    last = got.stages[1];
    assert_int_equal(last.weight_bytes, (300 + 150) * U);
    assert_int_equal(last.step_bytes, last.weight_bytes);
    assert_int_equal(last.scratch_bytes, 2 * 7 * U);
    assert_int_equal(last.token_bytes, 2 * U);
    assert_int_equal(last.need.page_bytes, 2 * U * 4);
    assert_int_equal(got.stages[0].scratch_bytes, 4 * 7 * U);
    assert_int_equal(got.stages[0].token_bytes, U);
}

/* A folded model has the same splits; only what is kept moves to weights. */
static void a_folded_model_has_the_same_split(void **state)
{
    (void)state;
    for (int round = 0; round < 500; round++) {
        uint32_t n = 1 + roll(4);
        struct split before;
        enum status st;

        random_instance(n);
        st = find(n);
        before = got;
        split_fold_drafts(&model);
        assert_int_equal(model.mtp.weight_bytes, 0);
        assert_int_equal(find(n), st);
        for (uint32_t i = 0; st == ST_OK && i < got.n_stages; i++) {
            const struct split_stage *a = &before.stages[i];
            const struct split_stage *b = &got.stages[i];

            assert_int_equal(a->worker, b->worker);
            assert_int_equal(a->end, b->end);
            assert_int_equal(a->step_bytes, b->step_bytes);
            assert_int_equal(a->pool.n_pages, b->pool.n_pages);
            assert_int_equal(a->weight_bytes + a->scratch_bytes,
                             b->weight_bytes + b->scratch_bytes);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_the_mtp_layer_in_the_last_stage),
        cmocka_unit_test(a_folded_model_has_the_same_split),
        cmocka_unit_test(finds_the_best_of_all_ways),
        cmocka_unit_test(shares_equal_layers_evenly),
        cmocka_unit_test(balances_what_a_step_reads),
        cmocka_unit_test(counts_the_head_and_not_the_embedding),
        cmocka_unit_test(holds_a_tied_head_once_on_one_stage),
        cmocka_unit_test(orders_unlike_workers),
        cmocka_unit_test(gives_the_fast_worker_more),
        cmocka_unit_test(takes_the_best_workers_of_more),
        cmocka_unit_test(knows_stages_of_one_kind),
        cmocka_unit_test(counts_pages_of_both_kinds),
        cmocka_unit_test(says_what_is_missing_where),
        cmocka_unit_test(more_layers_may_fit_where_fewer_do_not),
        cmocka_unit_test(refuses_more_stages_than_there_can_be),
        cmocka_unit_test(stays_within_its_limits),
        cmocka_unit_test(says_when_it_keeps_the_order),
        cmocka_unit_test(trusts_no_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
