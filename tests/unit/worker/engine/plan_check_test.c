/* Every check of a plan: the plan passes, and with one field changed the error
 * names what is wrong.
 *
 * The pool has PAGES pages, slots of SLOT pages and blocks of 4 positions.  The
 * plan has a prompt row with two saves, a generated row, and a twin of the
 * first. */
#include "worker/engine/plan_check.h"

#include <string.h>

#include "tests/unit/cmocka.h"

#define PAGES  64
#define HOST   10
#define SLOT   3
#define BLOCK  4
#define PROMPT 150 /* tokens of the first row: 38 blocks */
#define AT     9   /* position of the second */
#define KEPT   16  /* inputs that the kernels keep */

static const struct sampling greedy = {.top_p = 1, .repetition_penalty = 1};
static const struct sampling penalised = {
    .top_p = 1, .repetition_penalty = 1, .frequency_penalty = 2};
static const struct model_shape shape = {.n_layers = 2, .vocab = 100};
static const struct model_shape windowed = {
    .n_layers = 2, .vocab = 100, .window = 6};

struct rig {
    struct plan_bounds b;
    struct plan_marks marks, kept;
    uint32_t of[PAGES], kept_of[KEPT];
    struct plan p;
    struct plan_row rows[PLAN_ROWS_MAX + 1];
    uint32_t tokens[256], blocks[64], zero[4];
    struct plan_save saves[8];
    struct plan_copy before[4], after[4], poison[4];
    struct plan_replay replays[4];
    uint32_t pages[4], last[1];
};

static struct rig rig;

static void set_bounds(struct rig *g)
{
    g->marks.of = g->of;
    g->kept.of = g->kept_of;
    g->b = (struct plan_bounds){.shape = &shape,
                                .end = 2,
                                .has_attention = true,
                                .has_deltanet = true,
                                .block_tokens = BLOCK,
                                .n_pages = PAGES,
                                .n_host = HOST,
                                .pages_per_slot = SLOT,
                                .marks = &g->marks,
                                .drafts = true,
                                .max_tokens = 256,
                                .keep_tokens = KEPT,
                                .kept = &g->kept,
                                .last = g->last,
                                .n_last = 1};
    g->last[0] = 7;
}

/* Slots at pages 0, 3 and 6, checkpoints at 9 and 12, blocks from 15 on. */
static void set_rows(struct rig *g)
{
    g->rows[0] = (struct plan_row){.sequence = 10,
                                   .n_tokens = PROMPT,
                                   .n_blocks = 38,
                                   .n_saves = 2,
                                   .sample = true,
                                   .sampling = &greedy};
    g->rows[1] = (struct plan_row){.sequence = 11,
                                   .kind = ROW_GENERATED,
                                   .position = AT,
                                   .n_tokens = 1,
                                   .token = PROMPT,
                                   .chained = true,
                                   .block = 38,
                                   .n_blocks = 3,
                                   .slot = SLOT,
                                   .sample = true,
                                   .sampling = &greedy};
    g->rows[2] = (struct plan_row){
        .sequence = 12, .slot = 2 * SLOT, .sample = true, .sampling = &greedy};
    /* The second row shares its first two blocks with the first. */
    for (uint32_t i = 0; i < 38; i++) {
        g->blocks[i] = 15 + i;
    }
    g->blocks[38] = 15;
    g->blocks[39] = 16;
    g->blocks[40] = 53;
}

/* Makes the plan that passes. */
static struct plan *plan(void)
{
    struct rig *g = &rig;

    memset(g, 0, sizeof *g);
    set_bounds(g);
    set_rows(g);
    g->zero[1] = 2 * SLOT;
    g->saves[0] = (struct plan_save){64, 9};
    g->saves[1] = (struct plan_save){128, 12};
    g->before[0] = (struct plan_copy){.from = 54, .to = 55, .n = 1};
    g->after[0] = (struct plan_copy){.from = 0, .to = 2 * SLOT, .n = SLOT};
    g->after[1] = (struct plan_copy){.from = 52, .to = 56, .n = 1};
    g->poison[0] = (struct plan_copy){.from = 57, .n = PAGES - 57};
    g->p = (struct plan){.n_rows = 3,
                         .n_tokens = PROMPT + 1,
                         .n_blocks = 41,
                         .n_zero = 2,
                         .n_saves = 2,
                         .n_before = 1,
                         .n_after = 2,
                         .n_poison = 1,
                         .rows = g->rows,
                         .tokens = g->tokens,
                         .blocks = g->blocks,
                         .zero_slots = g->zero,
                         .saves = g->saves,
                         .before = g->before,
                         .after = g->after,
                         .poison = g->poison,
                         .replays = g->replays};
    return &g->p;
}

static void passes(void)
{
    struct error e = {0};

    if (plan_check(&rig.b, &rig.p, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
}

static void refused(const char *text)
{
    struct error e = {0};

    assert_int_equal(plan_check(&rig.b, &rig.p, &e), ST_INTERNAL);
    if (strstr(e.text, text) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", e.text, text);
    }
}

static void passes_again_and_again(void **state)
{
    (void)state;
    plan();
    for (int i = 0; i < 3; i++) {
        passes();
    }
    rig.marks.now = UINT32_MAX; /* the count of checks wraps */
    memset(rig.of, 0xff, sizeof rig.of);
    passes();
    passes();
    plan()->n_rows = 0;
    rig.p.n_tokens = 0;
    passes();
}

static void counts_have_limits(void **state)
{
    (void)state;
    plan()->n_rows = PLAN_ROWS_MAX + 1;
    refused("513 rows; at most 512");
    plan()->n_zero = PLAN_ROWS_MAX + 1;
    refused("513 slots to zero; at most 512");
    plan()->n_saves = PLAN_SAVES_MAX * PLAN_ROWS_MAX + 1;
    refused("2049 saves; at most 2048");
    plan()->n_before = PLAN_COPIES_MAX + 1;
    refused("65537 copies before the rows; at most 65536");
    plan()->n_after = 2 * PLAN_ROWS_MAX + 1;
    refused("1025 copies after the rows; at most 1024");
    /* A twin copies one page of each table. */
    plan()->n_after = 4 * PLAN_ROWS_MAX + 1;
    rig.b.window_pages = 2;
    refused("2049 copies after the rows; at most 2048");
    plan()->n_poison = PLAN_COPIES_MAX + 1;
    refused("65537 ranges to poison; at most 65536");
}

static void tables_are_inside_the_pool(void **state)
{
    (void)state;
    plan();
    rig.blocks[39] = PAGES - 1;
    passes();
    rig.blocks[39] = PAGES;
    refused("row 1, sequence 11: block at page 64 of 64");
    plan();
    rig.rows[1].n_blocks = 2;
    refused("table of 2 blocks for 10 positions");
    rig.rows[1].n_blocks = 4;
    refused("table of 4 blocks");
    plan();
    rig.rows[1].block = 39;
    refused("table");
    rig.b.has_attention = false; /* then it is not read */
    passes();
}

static void slots_are_inside_the_pool(void **state)
{
    (void)state;
    plan();
    rig.rows[1].slot = 60; /* the last one: page 63 is left over */
    rig.poison[0].n = 0;
    passes();
    rig.rows[1].slot = 63;
    refused("row 1, sequence 11: slot at page 63 of 64");
    rig.rows[1].slot = 4;
    refused("slot at page 4 of 64; slots have 3 pages");
    rig.rows[1].slot = SLOT_NONE;
    refused("slot at page 4294967295");
    rig.b.has_deltanet = false;
    rig.p.n_zero = 0;
    passes();
    plan();
    rig.zero[0] = 63;
    refused("slot to zero at page 63");
    rig.zero[0] = 1;
    refused("slot to zero at page 1");
    plan();
    rig.b.n_pages = 2; /* smaller than a slot */
    rig.p.n_poison = 0;
    refused("slot to zero at page 0 of 2");
}

static void saves_lie_inside_their_row(void **state)
{
    (void)state;
    plan();
    rig.rows[0].n_saves = PLAN_SAVES_MAX + 1;
    rig.p.n_saves = 8;
    refused("5 saves at 0 of 8; at most 4");
    plan();
    rig.rows[0].save = 1;
    refused("2 saves at 1 of 2");
    rig.rows[0].save = UINT32_MAX;
    refused("2 saves at 4294967295 of 2");
    plan();
    rig.saves[1].position = 100;
    refused("row 0, sequence 10: save at position 100, which is not a multiple "
            "of 64 past 64 and at most 150");
    rig.saves[1].position = 64;
    refused("save at position 64");
    rig.saves[1].position = 192;
    refused("save at position 192");
    plan();
    rig.saves[0].position = 0;
    refused("save at position 0");
    plan();
    rig.saves[0].page = 10;
    refused("checkpoint at page 10 of 64");
    rig.saves[0].page = 63;
    refused("checkpoint at page 63 of 64");
    rig.b.has_deltanet = false; /* then they are not read */
    rig.p.n_zero = 0;
    passes();
}

/* At the begin and the end of a row: (position, end]. */
static void saves_at_a_rows_ends(void **state)
{
    (void)state;
    plan();
    rig.rows[0].n_tokens = 128;
    rig.rows[1].token = 128;
    rig.p.n_tokens = 129;
    rig.after[1].from = 46;
    passes();
    rig.rows[0].position = 63;
    rig.rows[0].n_tokens = rig.rows[1].token = 65;
    rig.p.n_tokens = 66;
    passes();
    rig.rows[0].position = 64;
    rig.rows[0].n_tokens = rig.rows[1].token = 64;
    rig.p.n_tokens = 65;
    refused("save at position 64");
    rig.rows[0].save = 1;
    rig.rows[0].n_saves = 1;
    passes();
}

static struct plan_copy copy_of(enum copy_kind kind, uint32_t from, uint32_t to,
                                uint32_t n)
{
    return (struct plan_copy){.from = from, .to = to, .n = n, .kind = kind};
}

static void copies_to_the_host_tier_are_inside_both(void **state)
{
    (void)state;
    plan();
    /* The two memories have nothing to do with each other: equal numbers are
     * apart. */
    rig.before[0] = copy_of(COPY_OUT, 0, 0, HOST);
    passes();
    rig.before[0] = copy_of(COPY_OUT, PAGES - 3, HOST - 3, 3);
    passes();
    rig.before[0] = copy_of(COPY_OUT, PAGES - 3, HOST - 4, 4);
    refused("copy 0 before the rows: 4 pages from 61 to 6 out to the host "
            "tier of 64, 10 in the host tier");
    rig.before[0] = copy_of(COPY_OUT, PAGES - 4, HOST - 3, 4);
    refused("copy 0 before the rows: 4 pages from 60 to 7 out to the host");
    rig.before[0] = copy_of(COPY_OUT, 0, 0, HOST + 1);
    refused("copy 0 before the rows: 11 pages");
    rig.before[0] = copy_of(COPY_OUT, 0, UINT32_MAX, 1);
    refused("copy 0 before the rows: 1 pages");
    rig.before[0] = copy_of(COPY_IN, HOST - 3, PAGES - 3, 3);
    passes();
    rig.before[0] = copy_of(COPY_IN, HOST - 4, PAGES - 3, 4);
    refused("copy 0 before the rows: 4 pages from 6 to 61 in from the host");
    rig.before[0] = copy_of(COPY_IN, HOST - 3, PAGES - 4, 4);
    refused("copy 0 before the rows: 4 pages from 7 to 60 in from the host");
    rig.before[0] = copy_of(COPY_IN, HOST, 0, 1);
    refused("copy 0 before the rows: 1 pages");
    rig.before[0] = copy_of((enum copy_kind)3, 0, 0, 1);
    refused("copy 0 before the rows: 1 pages from 0 to 0 of no kind");
    plan();
    rig.after[1].kind = COPY_OUT;
    rig.after[1].from = rig.after[1].to = 0;
    refused("copy 1 after the rows is out to the host tier");
    rig.after[1].kind = COPY_IN;
    refused("copy 1 after the rows is in from the host tier");
}

static void a_worker_without_a_host_tier_copies_nothing_there(void **state)
{
    (void)state;
    plan();
    rig.b.n_host = 0;
    rig.before[0] = copy_of(COPY_OUT, 0, 0, 1);
    refused("1 pages from 0 to 0 out to the host tier of 64, 0 in");
    rig.before[0] = copy_of(COPY_IN, 0, 0, 1);
    refused("1 pages from 0 to 0 in from the host tier of 64, 0 in");
}

static void copies_are_inside_the_pool_and_apart(void **state)
{
    (void)state;
    plan();
    rig.before[0] = (struct plan_copy){.from = 58, .to = 61, .n = 3};
    passes();
    rig.before[0] = (struct plan_copy){.from = 58, .to = 61, .n = 4};
    refused("copy 0 before the rows: 4 pages from 58 to 61 of 64");
    rig.before[0] = (struct plan_copy){.from = 61, .to = 58, .n = 4};
    refused("copy 0 before the rows");
    rig.before[0] = (struct plan_copy){.from = 58, .to = 60, .n = 3};
    refused("copy 0 before the rows: 3 pages");
    rig.before[0] = (struct plan_copy){.from = 60, .to = 58, .n = 3};
    refused("copy 0 before the rows: 3 pages");
    rig.before[0] = (struct plan_copy){.from = 58, .to = 58, .n = 1};
    refused("copy 0 before the rows: 1 pages");
    rig.before[0] = (struct plan_copy){.from = 58, .to = UINT32_MAX, .n = 2};
    refused("copy 0 before the rows: 2 pages");
    plan();
    rig.after[1] = (struct plan_copy){.from = 52, .to = PAGES, .n = 1};
    refused("copy 1 after the rows: 1 pages from 52 to 64");
    rig.after[1] = (struct plan_copy){.from = PAGES, .to = 56, .n = 1};
    refused("copy 1 after the rows");
    rig.after[1] = (struct plan_copy){.from = 55, .to = 56, .n = 2};
    refused("copy 1 after the rows");
    plan();
    rig.poison[0].n++;
    refused("poison for 8 pages at 57 of 64");
    rig.poison[0] = (struct plan_copy){.from = UINT32_MAX, .n = 2};
    refused("poison for 2 pages at 4294967295");
}

/* Two rows may read a block, but only one writes it. */
static void no_page_is_written_twice(void **state)
{
    (void)state;
    plan();
    rig.blocks[40] = 20; /* which the first row writes */
    refused("row 1, sequence 11: page 20 is written twice");
    plan();
    rig.blocks[1] = 15;
    refused("row 0, sequence 10: page 15 is written twice");
    plan();
    rig.rows[1].slot = 0;
    refused("row 1, sequence 11: page 0 is written twice");
    plan();
    rig.blocks[40] = 4; /* in its own slot */
    refused("row 1, sequence 11: page 4 is written twice");
    plan();
    rig.saves[1].page = 9;
    refused("row 0, sequence 10: page 9 is written twice");
    rig.saves[1].page = 0;
    refused("row 0, sequence 10: page 0 is written twice");
    rig.saves[1].page = 3;
    refused("row 1, sequence 11: page 3 is written twice");
    plan();
    rig.after[1].to = 20;
    refused("copy 1 after the rows: page 20 is written twice");
    rig.after[1].to = 7;
    refused("copy 1 after the rows: page 7 is written twice");
}

/* ---- windows ---- */

/* Makes the second row's window of 6 positions: those of 4 to 9 are in its
 * blocks 1 and 2, at pages 57 and 58 in one table and 59 and 60 in the other.
 * The first row has 38 window blocks in each table at page 15 + i: there are
 * no other blocks. */
static struct plan *plan_windows(void)
{
    struct rig *g = &rig;
    uint32_t at = 0;

    plan();
    g->b.shape = &windowed;
    g->b.window_pages = 2;
    g->b.has_attention = g->b.has_deltanet = false;
    g->p.n_zero = g->p.n_after = g->p.n_poison = 0;
    g->rows[0].n_tokens = g->rows[1].token = 20;
    g->p.n_tokens = 21;
    g->rows[0].n_window = 5;
    for (; at < 10; at++) {
        g->blocks[at] = 15 + at;
    }
    g->rows[1].window = at;
    g->rows[1].n_window = 2;
    g->rows[1].window_first = 1;
    for (uint32_t i = 0; i < 4; i++) {
        g->blocks[at++] = 57 + i;
    }
    g->p.n_blocks = at;
    return &g->p;
}

static void window_tables_cover_the_windows_of_their_row(void **state)
{
    (void)state;
    plan_windows();
    passes();
    rig.rows[1].window_first = 2;
    refused("row 1, sequence 11: 2 tables of 2 window blocks from 2 on for "
            "positions 4 to 10");
    rig.rows[1].window_first = 1;
    rig.rows[1].position = 8; /* sees 3 to 8: block 0 */
    refused("positions 3 to 9");
    rig.rows[1].position = 9;
    rig.rows[1].n_window = 1;
    refused("2 tables of 1 window blocks from 1 on");
    plan_windows();
    rig.rows[0].n_tokens = 21;
    rig.rows[1].token = 21;
    rig.p.n_tokens = 22;
    refused("row 0, sequence 10: 2 tables of 5 window blocks from 0 on for "
            "positions 0 to 21");
    plan_windows();
    rig.rows[0].window_first = 1; /* its first tokens see block 0 */
    refused("row 0, sequence 10: 2 tables of 5 window blocks from 1 on");
}

/* At the begin of a sequence, a window has what there is. */
static void windows_begin_at_the_first_position(void **state)
{
    (void)state;
    plan_windows();
    rig.rows[1].position = 5; /* sees 0 to 5 */
    rig.rows[1].window_first = 0;
    passes();
    rig.rows[1].window_first = 1;
    refused("positions 0 to 6");
    rig.rows[1].position = 8;
    refused("positions 3 to 9");
}

static void window_tables_are_inside_the_pool(void **state)
{
    (void)state;
    plan_windows();
    rig.blocks[13] = PAGES - 1;
    passes();
    rig.blocks[13] = PAGES;
    refused("row 1, sequence 11: window block at page 64 of 64");
    plan_windows();
    rig.blocks[0] = PAGES; /* that of a position before the row counts too */
    refused("row 0, sequence 10: window block at page 64 of 64");
    plan_windows();
    rig.rows[1].window++;
    refused("2 tables of 2 window blocks");
    plan_windows();
    rig.rows[1].window = UINT32_MAX;
    refused("2 tables of 2 window blocks");
    rig.b.window_pages = 0; /* then they are not read */
    passes();
}

static void no_window_page_is_written_twice(void **state)
{
    (void)state;
    plan_windows();
    rig.blocks[10] = 16; /* which the row reads only */
    passes();
    rig.blocks[11] = 16;
    refused("row 1, sequence 11: page 16 is written twice");
    plan_windows();
    rig.blocks[13] = 58; /* in both of its tables */
    refused("row 1, sequence 11: page 58 is written twice");
    plan_windows();
    rig.blocks[7] = 15; /* in both tables of the first row */
    refused("row 0, sequence 10: page 15 is written twice");
    plan_windows();
    rig.b.has_attention = true; /* blocks and window blocks are apart */
    rig.rows[0].n_blocks = 5;
    refused("page 15 is written twice");
}

/* ---- twins ---- */

static void twins_follow_a_row_that_samples(void **state)
{
    (void)state;
    plan();
    rig.rows[2].source = 1;
    passes();
    rig.rows[2].source = 2;
    refused("row 2, sequence 12: no tokens, and row 2 is not a row before it");
    rig.rows[2].source = 3;
    refused("no tokens, and row 3");
    plan();
    rig.rows[0].sample = false;
    refused("no tokens, and row 0");
    plan();
    rig.rows[2].sample = false;
    refused("no tokens, and row 0");
    plan();
    rig.rows[2].chained = true;
    refused("no tokens, and row 0");
    plan();
    rig.rows[2].sampling = NULL;
    refused("row 2, sequence 12: the row samples but has no sampling");
    plan();
    rig.rows[3] = rig.rows[2]; /* a twin of a twin */
    rig.rows[3].source = 2;
    rig.p.n_rows = 4;
    refused("row 3, sequence 12: no tokens, and row 2");
    rig.rows[3].source = 0;
    passes();
    plan();
    rig.rows[0].n_tokens = 0; /* no source at all */
    refused("row 0, sequence 10: no tokens, and row 0");
}

/* A stage reads neither `sample` nor what follows it. */
static void twins_of_an_earlier_stage_do_not_sample(void **state)
{
    (void)state;
    plan();
    rig.b.end = 1;
    rig.b.hidden_tokens = 256;
    rig.rows[1].chained = false;
    rig.rows[0].sample = rig.rows[2].sample = false;
    rig.rows[2].sampling = NULL;
    rig.rows[2].token = UINT32_MAX; /* not read: it has no tokens */
    passes();
    rig.rows[2].source = 2;
    refused("row 2, sequence 12: no tokens, and row 2");
}

/* A twin's history ends where its source does, a chained token included. */
static void twins_have_the_history_of_their_source(void **state)
{
    struct plan_history h = {
        .pages = {.memory = rig.pages, .n_pages = 1, .shift = 9},
        .n = PROMPT,
        .n_prompt = PROMPT};
    static uint32_t memory[1 << 9];

    (void)state;
    h.pages.memory = memory;
    plan();
    rig.rows[2].sampling = &penalised;
    rig.rows[2].history = h;
    passes();
    rig.rows[2].history.n = PROMPT - 1;
    refused("row 2, sequence 12: history of 149 ids");
    rig.rows[2].source = 1;
    rig.rows[2].history.n = AT + 1;
    rig.rows[2].history.n_prompt = AT;
    refused("history of 10 ids");
    rig.rows[2].history.n = AT; /* and the chained one */
    passes();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_again_and_again),
        cmocka_unit_test(counts_have_limits),
        cmocka_unit_test(tables_are_inside_the_pool),
        cmocka_unit_test(slots_are_inside_the_pool),
        cmocka_unit_test(saves_lie_inside_their_row),
        cmocka_unit_test(saves_at_a_rows_ends),
        cmocka_unit_test(copies_are_inside_the_pool_and_apart),
        cmocka_unit_test(copies_to_the_host_tier_are_inside_both),
        cmocka_unit_test(a_worker_without_a_host_tier_copies_nothing_there),
        cmocka_unit_test(no_page_is_written_twice),
        cmocka_unit_test(window_tables_cover_the_windows_of_their_row),
        cmocka_unit_test(windows_begin_at_the_first_position),
        cmocka_unit_test(window_tables_are_inside_the_pool),
        cmocka_unit_test(no_window_page_is_written_twice),
        cmocka_unit_test(twins_follow_a_row_that_samples),
        cmocka_unit_test(twins_of_an_earlier_stage_do_not_sample),
        cmocka_unit_test(twins_have_the_history_of_their_source),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
