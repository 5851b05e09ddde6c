#include "tests/unit/worker/plan/batcher_bench.h"

#include "tests/unit/cmocka.h"

struct bench bench;

struct batcher *bench_with(uint32_t rows, uint32_t tokens, uint32_t chunk,
                           uint32_t depth)
{
    struct pool_options po = {
        .n_pages = 16384, .pages_per = {1, 1, 1}, .slot_cap = 64};
    struct sequence_limits sl = {
        .capacity = 64, .longest = 4096, .values = 1048576, .hash_seed = 1};
    struct batcher_limits bl = {.max_rows = rows,
                                .copies = BATCH_COPIES_MAX,
                                .step_tokens = tokens,
                                .chunk_tokens = chunk,
                                .depth = depth,
                                .batches = BATCHES_MAX,
                                .block_tokens = 8,
                                .context = 4096,
                                .pages_per_slot = 1,
                                .has_blocks = true};

    assert_true(pool_init(&bench.pool, &po, false));
    assert_true(sequence_table_init(&bench.table, &sl, &bench.pool));
    assert_true(batcher_init(&bench.batcher, &bl, &bench.table, NULL));
    return &bench.batcher;
}

void bench_done(void)
{
    assert_int_equal(bench.pool.violations, 0);
    batcher_fini(&bench.batcher);
    sequence_table_fini(&bench.table);
    pool_fini(&bench.pool);
}

struct sequence *bench_line_up(uint32_t n_prompt, uint32_t n_generated,
                               uint32_t max_tokens)
{
    uint32_t n = n_prompt + max_tokens;
    struct pool_need need = {{(n + 7) / 8, 1, 0}};
    struct sequence *s = sequence_new(&bench.table, n, need.n[POOL_BLOCKS]);

    assert_non_null(s);
    assert_int_equal(pool_grant(&bench.pool, &need, NULL), ST_OK);
    s->memory.need = need;
    s->portable.n_prompt = n_prompt;
    s->portable.n_generated = n_generated;
    s->portable.max_tokens = max_tokens;
    for (uint32_t i = 0; i < n_prompt + n_generated; i++) {
        paged_write(&bench.table.slab, &s->portable.tokens, i, &i, 1);
    }
    sequence_move(&bench.table, s, SEQUENCE_QUEUED);
    batcher_add(&bench.batcher, s);
    return s;
}

void bench_back(struct batcher *b)
{
    const struct batch *t = batcher_oldest(b);
    uint32_t id = 500;

    for (uint32_t i = 0; i < t->plan.n_rows; i++) {
        struct sequence *s = t->owners[i];

        s->plan.inflight--;
        if (t->plan.rows[i].sample) {
            s->plan.pending--;
            paged_write(&bench.table.slab, &s->portable.tokens,
                        sequence_known(s), &id, 1);
            s->portable.n_generated++;
            if (s->state == SEQUENCE_PREFILL) {
                sequence_move(&bench.table, s, SEQUENCE_DECODE);
            }
        }
    }
    batcher_return(b);
}

const struct plan *bench_next(struct batcher *b)
{
    const struct plan *p = batcher_plan(b);

    assert_non_null(p);
    assert_null(b->stuck);
    return p;
}

void bench_check_row(const struct plan *p, uint32_t i, const struct sequence *s,
                     uint32_t position, uint32_t n_tokens, bool sample)
{
    const struct plan_row *r = &p->rows[i];

    assert_in_range(i, 0, p->n_rows - 1);
    assert_int_equal(r->sequence, s->number);
    assert_int_equal(r->position, position);
    assert_int_equal(r->n_tokens, n_tokens);
    assert_int_equal(r->sample, sample);
    assert_int_equal(r->kind, position < s->portable.n_prompt ? ROW_PROMPT
                                                              : ROW_GENERATED);
    assert_int_equal(r->n_blocks, (position + n_tokens + 7) / 8);
    assert_int_equal(r->slot, s->memory.slot);
}
