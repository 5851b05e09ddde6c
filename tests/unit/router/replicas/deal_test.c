/* Every deal makes one more set and stays within all budgets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "router/replicas/deal_every.h"

#define LAYERS  8
#define CONTEXT 64
#define BLOCK   32

static const struct split_layer attention = {.weight_bytes = 1000,
                                             .token_bytes = 4};
static const struct split_layer linear = {.weight_bytes = 700,
                                          .slot_bytes = 320};
static const struct split_layer window = {.weight_bytes = 900,
                                          .window_bytes = 6};
static struct split_layer layers[LAYERS];

static uint32_t draw(uint32_t n)
{
    return (uint32_t)rand() % n;
}

static struct cover_piece draw_piece(void)
{
    struct cover_piece p;

    do {
        p.begin = draw(LAYERS);
        p.end = p.begin + 1 + draw(LAYERS - p.begin);
    } while (p.end - p.begin == LAYERS);
    return p;
}

static void draw_task(struct deal_task *t)
{
    *t = (struct deal_task){.layers = layers,
                            .embed_bytes = draw(2) * 500,
                            .head_bytes = draw(2) * 900,
                            .n_layers = LAYERS,
                            .n_stages = 2 + draw(3),
                            .block_tokens = BLOCK,
                            .context = CONTEXT,
                            .max_rows = 4,
                            .no_gaps = draw(8) == 0,
                            .n_pieces = draw(6),
                            .n_workers = draw(6)};
    for (uint32_t i = 0; i < LAYERS; i++) {
        layers[i] = draw(3) == 0 ? attention : linear;
    }
    if (draw(2) == 0) {
        t->window_tokens = 1 + draw(40);
        t->chunk_tokens = 1 + draw(20);
        for (uint32_t i = 0; i < LAYERS; i++) {
            layers[i] = draw(2) == 0 ? window : layers[i];
        }
    }
    for (uint32_t i = 0; i < t->n_pieces; i++) {
        t->pieces[i] = draw_piece();
    }
    for (uint32_t i = 0; i < t->n_workers; i++) {
        t->workers[i] = (struct split_worker){.name = "w",
                                              .budget_bytes = draw(9000),
                                              .scratch_bytes = draw(2) * 100,
                                              .speed = 1 + draw(3)};
    }
}

/* Returns the window blocks of a sequence of the whole context. */
static uint64_t window_blocks(const struct deal_task *t)
{
    uint64_t most = 1;

    while ((most - 1) * BLOCK < t->window_tokens + t->chunk_tokens) {
        most++;
    }
    return most < CONTEXT / BLOCK ? most : CONTEXT / BLOCK;
}

/* Counts pages without the functions that the router uses: a block, or where
 * there are no blocks a window block, or a slot. */
static uint64_t need_of(const struct deal_task *t, struct cover_piece p)
{
    uint64_t bytes = (p.begin == 0 ? t->embed_bytes : 0) +
                     (p.end == LAYERS ? t->head_bytes : 0);
    uint64_t blocks = 0, windows = 0, slot = 0, page, n = 0, per;

    for (uint32_t i = p.begin; i < p.end; i++) {
        bytes += layers[i].weight_bytes;
        slot += layers[i].slot_bytes;
        blocks += layers[i].token_bytes * BLOCK;
        windows += layers[i].window_bytes > 0;
    }
    per = window.window_bytes * BLOCK;
    page = blocks > 0 ? blocks : windows * per;
    if (page == 0) {
        return bytes + slot;
    }
    page = windows > 0 && page < per ? per : page;
    while (n * page < slot) {
        n++;
    }
    n += blocks > 0 ? CONTEXT / BLOCK : 0;
    per = page / per;
    n += windows > 0 ? (windows + per - 1) / per * window_blocks(t) : 0;
    return bytes + n * page;
}

static void check_deal(const struct deal_task *t, const struct deal *d)
{
    struct cover_piece all[COVER_PIECES_MAX];
    struct cover before, after;

    memcpy(all, t->pieces, sizeof all);
    cover_find(&before, all, t->n_pieces, LAYERS);
    for (uint32_t i = 0; i < d->n; i++) {
        const struct split_worker *w = &t->workers[d->workers[i]];

        assert_true(d->workers[i] < t->n_workers);
        assert_true(need_of(t, d->given[i]) + w->scratch_bytes <=
                    w->budget_bytes);
        for (uint32_t k = 0; k < i; k++) {
            assert_int_not_equal(d->workers[k], d->workers[i]);
        }
        all[t->n_pieces + i] = d->given[i];
    }
    cover_find(&after, all, t->n_pieces + d->n, LAYERS);
    assert_int_equal(after.n, before.n + 1);
}

/* Returns true if one worker could fill the gap between two left-over shards.
 */
static bool one_could(const struct deal_task *t)
{
    struct cover c;

    cover_find(&c, t->pieces, t->n_pieces, LAYERS);
    if (c.n > 0 || t->n_pieces != 1 || t->no_gaps) {
        return false;
    }
    for (uint32_t i = 0; i < t->n_workers; i++) {
        const struct cover_piece *p = &t->pieces[0];
        struct cover_piece gap = {p->begin == 0 ? p->end : 0,
                                  p->begin == 0 ? LAYERS : p->begin};

        if ((p->begin == 0 || p->end == LAYERS) &&
            need_of(t, gap) + t->workers[i].scratch_bytes <=
                t->workers[i].budget_bytes) {
            return true;
        }
    }
    return false;
}

/* An exhaustive search from a layer on with the workers that are left. */
struct tries {
    const struct deal_task *t;
    bool piece_used[COVER_PIECES_MAX], worker_used[STAGES_MAX];
    uint32_t n_dealt, n_pieces;
};

static bool holds(const struct tries *x, uint32_t worker, struct cover_piece p)
{
    const struct split_worker *w = &x->t->workers[worker];

    return need_of(x->t, p) + w->scratch_bytes <= w->budget_bytes;
}

static bool completes(struct tries *x, uint32_t at);

static bool goes_on_with_piece(struct tries *x, uint32_t i)
{
    bool found;

    x->piece_used[i] = true;
    x->n_pieces++;
    found = completes(x, x->t->pieces[i].end);
    x->n_pieces--;
    x->piece_used[i] = false;
    return found;
}

static bool goes_on_with_worker(struct tries *x, uint32_t i, uint32_t at)
{
    bool found = false;

    x->worker_used[i] = true;
    x->n_dealt++;
    for (uint32_t to = at + 1; !found && to <= LAYERS; to++) {
        found = holds(x, i, (struct cover_piece){at, to}) && completes(x, to);
    }
    x->n_dealt--;
    x->worker_used[i] = false;
    return found;
}

static bool completes(struct tries *x, uint32_t at)
{
    const struct deal_task *t = x->t;

    if (at == LAYERS) {
        return x->n_pieces > 0 || x->n_dealt == t->n_stages;
    }
    for (uint32_t i = 0; i < t->n_pieces; i++) {
        if (!x->piece_used[i] && t->pieces[i].begin == at &&
            goes_on_with_piece(x, i)) {
            return true;
        }
    }
    for (uint32_t i = 0; i < t->n_workers; i++) {
        if (!x->worker_used[i] && goes_on_with_worker(x, i, at)) {
            return true;
        }
    }
    return false;
}

/* Returns true if the left-over shards and the workers could make a set. */
static bool anybody_could(const struct deal_task *t)
{
    struct tries x = {.t = t};
    struct cover c;

    cover_find(&c, t->pieces, t->n_pieces, LAYERS);
    for (uint32_t i = 0; i < c.n; i++) {
        for (uint32_t k = 0; k < c.sets[i].n; k++) {
            x.piece_used[c.sets[i].pieces[k]] = true;
        }
    }
    for (uint32_t i = 0; t->no_gaps && i < t->n_pieces; i++) {
        if (!x.piece_used[i]) {
            return false;
        }
    }
    return completes(&x, 0);
}

static void a_deal_makes_a_set(void **state)
{
    uint32_t n_gaps = 0, n_whole = 0, n_none = 0, n_lack = 0, n_one = 0,
             n_missed = 0;

    (void)state;
    srand(9);
    for (int round = 0; round < 4000; round++) {
        struct deal_task t;
        struct deal d;
        struct error e;
        enum status st;

        draw_task(&t);
        st = deal_find(&d, &t, &e);
        if (one_could(&t)) {
            assert_int_equal(d.n, 1);
            n_one++;
        }
        if (st == ST_OK) {
            bool whole = d.n == t.n_stages && d.given[0].begin == 0 &&
                         d.given[d.n - 1].end == LAYERS;

            check_deal(&t, &d);
            n_whole += whole;
            n_gaps += !whole;
            continue;
        }
        assert_int_equal(d.n, 0);
        assert_true(st == ST_NOT_FOUND || st == ST_RESOURCE_EXHAUSTED);
        n_missed += anybody_could(&t);
        n_none += st == ST_NOT_FOUND;
        n_lack += st == ST_RESOURCE_EXHAUSTED;
    }
    assert_int_equal(n_missed, 0);
    assert_true(n_gaps > 200 && n_whole > 50 && n_none > 200 && n_lack > 200 &&
                n_one > 20);
}

/* Two gaps and two workers.  The faster worker can hold either gap, the other
 * one only the first gap. */
static void the_hardest_gap_is_first(void **state)
{
    struct deal_task t = {
        .layers = layers,
        .head_bytes = 5000,
        .n_layers = LAYERS,
        .n_stages = 4,
        .block_tokens = BLOCK,
        .context = CONTEXT,
        .max_rows = 4,
        .pieces = {{1, LAYERS - 1}},
        .n_pieces = 1,
        .workers = {{.name = "large", .budget_bytes = 9000, .speed = 9},
                    {.name = "small", .budget_bytes = 2000, .speed = 1}},
        .n_workers = 2};
    struct deal d;
    struct error e;

    (void)state;
    for (uint32_t i = 0; i < LAYERS; i++) {
        layers[i] = attention;
    }
    assert_int_equal(deal_find(&d, &t, &e), ST_OK);
    assert_int_equal(d.n, 2);
    check_deal(&t, &d);
    t.workers[1].budget_bytes = 1000; /* now the second worker is too small */
    assert_int_equal(deal_find(&d, &t, &e), ST_RESOURCE_EXHAUSTED);
}

/* 15 shards and a worker for the gap make a replica; 16 shards do not. */
static void a_set_is_so_long(void **state)
{
    static struct split_layer many[COVER_STAGES_MAX + 1];

    (void)state;
    for (uint32_t i = 0; i <= COVER_STAGES_MAX; i++) {
        many[i] = attention;
    }
    for (uint32_t n = COVER_STAGES_MAX; n <= COVER_STAGES_MAX + 1; n++) {
        struct deal_task t = {.layers = many,
                              .n_layers = n,
                              .n_stages = 2,
                              .block_tokens = BLOCK,
                              .context = CONTEXT,
                              .max_rows = 4,
                              .n_pieces = n - 1,
                              .n_workers = 1};
        struct deal d;
        struct error e;

        for (uint32_t i = 0; i < n - 1; i++) {
            t.pieces[i] = (struct cover_piece){i, i + 1};
        }
        t.workers[0] = (struct split_worker){
            .name = "w", .budget_bytes = 1000 + 4 * CONTEXT, .speed = 1};
        assert_int_equal(deal_find(&d, &t, &e),
                         n > COVER_STAGES_MAX ? ST_RESOURCE_EXHAUSTED : ST_OK);
        assert_int_equal(d.n, n <= COVER_STAGES_MAX);
    }
}

/* Only the first layer is missing, and one worker could hold it. */
static bool finds_the_one(uint32_t n_layers, uint32_t n_workers, uint32_t which)
{
    static struct split_layer many[DEAL_EVERY_LAYERS + 1];
    struct deal_task t = {.layers = many,
                          .n_layers = n_layers,
                          .n_stages = 2,
                          .block_tokens = BLOCK,
                          .context = CONTEXT,
                          .max_rows = 4,
                          .pieces = {{1, n_layers}},
                          .n_pieces = 1,
                          .n_workers = n_workers};
    struct deal d;
    bool found;

    for (uint32_t i = 0; i < n_layers; i++) {
        many[i] = attention;
    }
    for (uint32_t i = 0; i < n_workers; i++) {
        t.workers[i] = (struct split_worker){
            .name = "w", .budget_bytes = i == which ? 2000 : 1000, .speed = 1};
    }
    found = deal_every(&d, &t, t.pieces, t.n_pieces);
    assert_int_equal(d.n, found);
    if (found) {
        assert_int_equal(d.workers[0], which);
        assert_int_equal(d.given[0].begin, 0);
        assert_int_equal(d.given[0].end, 1);
    }
    return found;
}

static void every_way_is_of_so_many(void **state)
{
    (void)state;
    assert_true(finds_the_one(DEAL_EVERY_LAYERS, 1, 0));
    assert_false(finds_the_one(DEAL_EVERY_LAYERS + 1, 1, 0));
    assert_true(
        finds_the_one(8, DEAL_EVERY_WORKERS + 1, DEAL_EVERY_WORKERS - 1));
    assert_false(finds_the_one(8, DEAL_EVERY_WORKERS + 1, DEAL_EVERY_WORKERS));
    assert_false(finds_the_one(8, 2, 2)); /* no worker could hold it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deal_makes_a_set),
        cmocka_unit_test(the_hardest_gap_is_first),
        cmocka_unit_test(a_set_is_so_long),
        cmocka_unit_test(every_way_is_of_so_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
