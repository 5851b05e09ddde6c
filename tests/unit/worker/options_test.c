/* worker_new() takes every option at its limits and none past them. */
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig.h"

static uint64_t random_of(struct node_io *io)
{
    (void)io;
    return 1;
}

static struct node_io io = {.random = random_of};

static bool takes(void (*change)(struct worker_options *o))
{
    struct worker_options o;
    struct worker_core *w;
    bool made;

    rig_defaults(&o);
    change(&o);
    w = worker_new(&o, &io, NULL);
    made = w != NULL;
    worker_free(&w);
    return made;
}

#define CHANGE(name, statement)                         \
    static void change_##name(struct worker_options *o) \
    {                                                   \
        statement;                                      \
    }

CHANGE(nothing, (void)o)
CHANGE(name, o->name = NULL)
CHANGE(model, o->model = NULL)
CHANGE(device, o->device = NULL)
CHANGE(block_tokens, o->block_tokens = 0)
CHANGE(context, o->context = 0)
CHANGE(vocab, o->vocab = 0)
CHANGE(eos_most, o->n_eos = WORKER_EOS_MAX)
CHANGE(eos, o->n_eos = WORKER_EOS_MAX + 1)
CHANGE(rows_none, o->max_rows = 0)
CHANGE(rows_most, o->max_rows = PLAN_ROWS_MAX)
CHANGE(rows, o->max_rows = PLAN_ROWS_MAX + 1)
CHANGE(tokens_none, o->step_tokens = 0)
CHANGE(tokens_most, o->step_tokens = PLAN_TOKENS_MAX)
CHANGE(tokens, o->step_tokens = PLAN_TOKENS_MAX + 1)
CHANGE(chunk, o->chunk_tokens = 0)
CHANGE(depth_none, o->engine_depth = 0)
CHANGE(depth_most, o->engine_depth = ENGINE_DEPTH_MAX)
CHANGE(depth, o->engine_depth = ENGINE_DEPTH_MAX + 1)
CHANGE(no_slots, o->pool.pages_per_slot = 0)
CHANGE(no_blocks, o->pool.pages_per_block = 0)
CHANGE(no_layers, o->pool.pages_per_block = o->pool.pages_per_slot = 0)
CHANGE(windows_alone, (o->pool.pages_per_block = o->pool.pages_per_slot = 0,
                       o->window = o->pool.window_pages = 1))
CHANGE(windows_most, (o->window = 9, o->pool.window_pages = MODEL_LAYERS_MAX))
CHANGE(windows, (o->window = 9, o->pool.window_pages = MODEL_LAYERS_MAX + 1))
CHANGE(window_elsewhere, o->window = 9)
CHANGE(no_window, o->pool.window_pages = 1)
CHANGE(no_pool, o->pool.n_pages = 0)
CHANGE(no_cap, o->pool.slot_cap = 0)
CHANGE(slot_most, o->pool.pages_per_slot = o->pool.n_pages)
CHANGE(slot, o->pool.pages_per_slot = o->pool.n_pages + 1)
CHANGE(block_most, o->block_tokens = 64)
CHANGE(block, o->block_tokens = 128)
CHANGE(block_odd, o->block_tokens = 24)

static void takes_each_at_its_limit(void **state)
{
    static void (*const good[])(struct worker_options * o) = {
        change_nothing,       change_eos_most,     change_rows_most,
        change_tokens_most,   change_depth_most,   change_no_slots,
        change_no_blocks,     change_slot_most,    change_block_most,
        change_windows_alone, change_windows_most, change_window_elsewhere};

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        if (!takes(good[i])) {
            fail_msg("row %zu was refused", i);
        }
    }
}

static void refuses_each_past_it(void **state)
{
    static void (*const bad[])(struct worker_options * o) = {
        change_name,         change_model,     change_device,
        change_block_tokens, change_context,   change_vocab,
        change_eos,          change_rows_none, change_rows,
        change_tokens_none,  change_tokens,    change_chunk,
        change_depth_none,   change_depth,     change_no_pool,
        change_no_layers,    change_no_cap,    change_slot,
        change_block,        change_block_odd, change_windows,
        change_no_window};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (takes(bad[i])) {
            fail_msg("row %zu was taken", i);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_each_at_its_limit),
        cmocka_unit_test(refuses_each_past_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
