/* The checks of drafts in a plan: the plan passes, and with one field changed
 * the error names what is wrong.
 *
 * The pool has PAGES pages, slots of SLOT pages and blocks of 4 positions.  The
 * plan has two generated rows at position AT, each with K drafts. */
#include "worker/engine/plan_check.h"

#include <string.h>

#include "tests/unit/cmocka.h"

#define PAGES 64
#define SLOT  3
#define BLOCK 4
#define AT    9
#define K     3
#define KEPT  (DRAFTS_MAX + 1)
#define FIRST 20 /* page of the first block */
#define EACH  5  /* blocks of a row */

static const struct sampling greedy = {.top_p = 1, .repetition_penalty = 1};
static const struct sampling penalised = {
    .top_p = 1, .repetition_penalty = 1, .frequency_penalty = 2};
static const struct model_shape shape = {.n_layers = 4, .vocab = 100};

static struct {
    struct plan_bounds b;
    struct plan_marks marks, kept;
    uint32_t of[PAGES], kept_of[KEPT];
    struct plan p;
    struct plan_row rows[4];
    uint32_t tokens[64], blocks[64], last[1];
    struct plan_replay replays[PLAN_ROWS_MAX + 1];
    uint32_t memory[64];
    float hidden[1];
} rig;

static void set_bounds(void)
{
    rig.marks.of = rig.of;
    rig.kept.of = rig.kept_of;
    rig.b = (struct plan_bounds){.shape = &shape,
                                 .end = 4,
                                 .has_attention = true,
                                 .has_deltanet = true,
                                 .block_tokens = BLOCK,
                                 .n_pages = PAGES,
                                 .pages_per_slot = SLOT,
                                 .marks = &rig.marks,
                                 .drafts = true,
                                 .has_mtp = true,
                                 .max_tokens = 16,
                                 .keep_tokens = KEPT,
                                 .kept = &rig.kept,
                                 .hidden_tokens = 64,
                                 .last = rig.last,
                                 .n_last = 1};
}

static struct plan_row row_of(uint32_t i, uint32_t n_drafts)
{
    return (struct plan_row){.sequence = 10 + i,
                             .kind = ROW_GENERATED,
                             .position = AT,
                             .n_tokens = n_drafts + 1,
                             .token = rig.p.n_tokens,
                             .n_drafts = n_drafts,
                             .mtp = true,
                             .propose = K,
                             .block = EACH * i,
                             .n_blocks = EACH,
                             .slot = SLOT * i,
                             .sample = true,
                             .sampling = &greedy};
}

/* Makes the plan that passes. */
static struct plan *plan(void)
{
    memset(&rig, 0, sizeof rig);
    set_bounds();
    rig.p = (struct plan){.n_rows = 2,
                          .n_blocks = 2 * EACH,
                          .rows = rig.rows,
                          .tokens = rig.tokens,
                          .blocks = rig.blocks,
                          .replays = rig.replays};
    for (uint32_t i = 0; i < 2 * EACH; i++) {
        rig.blocks[i] = FIRST + i;
    }
    for (uint32_t i = 0; i < 2; i++) {
        rig.rows[i] = row_of(i, K);
        rig.p.n_tokens += K + 1;
    }
    return &rig.p;
}

/* Makes the same plan of the first stage of two. */
static struct plan *plan_early(void)
{
    plan();
    rig.b.end = 2;
    rig.b.has_mtp = false;
    for (uint32_t i = 0; i < 2; i++) {
        rig.rows[i].n_drafts = 77; /* not read */
        rig.rows[i].propose = 77;
        rig.rows[i].keep = true;
        rig.rows[i].keep_at = i * (K + 1);
    }
    rig.p.n_replays = 2;
    rig.replays[0] = (struct plan_replay){0, 0, KEPT};
    rig.replays[1] = (struct plan_replay){SLOT, KEPT - 1, 1};
    return &rig.p;
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

static void rows_have_at_most_drafts_max(void **state)
{
    (void)state;
    plan();
    passes();
    rig.p.n_rows = 1;
    rig.p.n_tokens = DRAFTS_MAX + 1;
    rig.rows[0] = row_of(0, DRAFTS_MAX);
    rig.rows[0].token = 0;
    rig.rows[0].propose = 0;
    passes();
    rig.b.keep_tokens = DRAFTS_MAX; /* one fewer than the row's tokens */
    refused("row 0, sequence 10: 9 inputs of a generated row with 0 saves to "
            "keep at 0 of 8, in a pass of 16 tokens");
    rig.b.has_deltanet = false; /* then none is kept */
    passes();
    rig.b.max_tokens = DRAFTS_MAX;
    refused("8 drafts of 9 tokens; at most 8 drafts and 8 tokens");
    plan()->n_rows = 1;
    rig.p.n_tokens = 64;
    rig.rows[0] = row_of(0, DRAFTS_MAX + 1);
    rig.rows[0].token = 0;
    rig.rows[0].propose = 0;
    refused("row 0, sequence 10: 9 drafts of 10 tokens; at most 8");
}

static void rows_with_drafts_are_generated_and_sample(void **state)
{
    (void)state;
    plan();
    rig.rows[1].n_tokens--;
    refused("row 1, sequence 11: 3 drafts of 3 tokens");
    rig.rows[1].n_tokens += 2;
    rig.p.n_tokens++;
    refused("row 1, sequence 11: 3 drafts of 5 tokens");
    plan();
    rig.rows[1].kind = ROW_PROMPT;
    refused("row 1, sequence 11: 3 drafts of 4 tokens");
    plan();
    rig.rows[1].sample = false;
    refused("row 1, sequence 11: 3 drafts");
    plan();
    rig.rows[1] = row_of(1, 0);
    rig.rows[1].token = K + 1;
    rig.rows[1].chained = true; /* to a row that sampled */
    rig.b.last = rig.tokens;
    passes();
    rig.rows[1].n_drafts = 1;
    refused("row 1, sequence 11: 1 drafts of 1 tokens");
    plan();
    rig.b.drafts = false;
    refused("row 0, sequence 10: 3 drafts");
    plan();
    rig.tokens[K] = 100;
    refused("row 0, sequence 10: token id 100 of 100");
}

static void rows_with_drafts_save_nothing(void **state)
{
    struct plan_save save = {.position = 64, .page = 9};

    (void)state;
    plan();
    rig.p.saves = &save;
    rig.p.n_saves = 1;
    rig.p.n_rows = 1;
    rig.rows[0].position = 63;
    rig.rows[0].n_blocks = 18;
    rig.rows[0].n_saves = 1;
    rig.p.n_blocks = 18;
    for (uint32_t i = 0; i < 18; i++) {
        rig.blocks[i] = FIRST + i;
    }
    refused("4 inputs of a generated row with 1 saves");
    rig.rows[0].n_saves = 0;
    passes();
}

static void a_twin_has_no_source_with_drafts(void **state)
{
    (void)state;
    plan();
    rig.rows[2] = row_of(2, 0);
    rig.rows[2].n_tokens = 0;
    rig.p.n_rows = 3;
    rig.rows[2].source = 1;
    refused("row 2, sequence 12: no tokens, and row 1 is not a row before it");
    rig.rows[1].n_drafts = 0;
    passes();
    rig.rows[2].n_drafts = 1;
    refused("row 2, sequence 12: no tokens");
}

static void histories_end_before_the_drafts(void **state)
{
    (void)state;
    plan();
    rig.rows[1].sampling = &penalised;
    rig.rows[1].history = (struct plan_history){
        .pages = {.memory = rig.memory, .n_pages = 1, .shift = 6},
        .n = AT + 1,
        .n_prompt = AT};
    passes();
    rig.rows[1].history.n = AT + 1 + K;
    refused("row 1, sequence 11: history of 13 ids");
    rig.rows[1].history.n = AT;
    refused("row 1, sequence 11: history of 9 ids");
}

static void proposals_have_an_mtp_layer_and_blocks(void **state)
{
    (void)state;
    plan();
    rig.rows[1].propose = EACH * BLOCK - AT - (K + 1);
    passes();
    rig.rows[1].propose++; /* past the table */
    refused("row 1, sequence 11: table of 5 blocks for 21 positions");
    plan();
    rig.blocks[EACH + 3] = FIRST + 2; /* where the other's tokens are */
    refused("row 1, sequence 11: page 22 is written twice");
    rig.rows[0].propose = rig.rows[1].propose = 0;
    rig.rows[1].position = 0; /* it does not get there */
    passes();
    plan();
    rig.b.has_mtp = false;
    refused("row 0, sequence 10: 3 drafts to propose");
    plan();
    rig.rows[0].mtp = false;
    refused("row 0, sequence 10: 3 drafts to propose");
    rig.rows[0].propose = 0;
    passes();
    plan()->n_rows = 1;
    rig.rows[0] = row_of(0, 0);
    rig.rows[0].token = 0;
    rig.rows[0].position = 0;
    rig.rows[0].propose = DRAFTS_MAX;
    passes();
    rig.rows[0].propose = DRAFTS_MAX + 1;
    refused("row 0, sequence 10: 9 drafts to propose; at most 8");
}

/* The MTP layer reads the token after the row's last. */
static void rows_that_do_not_sample_have_the_next_token(void **state)
{
    (void)state;
    plan();
    rig.rows[1].n_drafts = rig.rows[1].propose = 0;
    rig.rows[1].sample = false;
    rig.rows[1].next = 99;
    passes();
    rig.rows[1].next = 100;
    refused("row 1, sequence 11: next token id 100 of 100");
    rig.rows[1].mtp = false; /* then it is not read */
    passes();
    rig.rows[1].mtp = true;
    rig.rows[1].propose = 1;
    refused("row 1, sequence 11: 1 drafts to propose");
}

/* The last stage embeds drafts for its MTP layer, and compares them. */
static void a_last_stage_reads_the_tokens_of_drafts(void **state)
{
    (void)state;
    plan();
    rig.b.begin = 2;
    rig.p.hidden = rig.hidden;
    passes();
    rig.tokens[K + 2] = 100;
    refused("row 1, sequence 11: token id 100 of 100");
    rig.rows[1].mtp = false;
    rig.rows[1].propose = 0;
    refused("row 1, sequence 11: token id 100 of 100");
    rig.rows[1].n_drafts = 0;
    passes();
    rig.rows[1].mtp = true;
    refused("row 1, sequence 11: token id 100 of 100");
}

static void kept_inputs_are_apart(void **state)
{
    (void)state;
    plan_early();
    passes();
    rig.rows[1].keep_at = K;
    refused("row 1, sequence 11: kept input 3 is written twice");
    rig.rows[1].keep_at = KEPT - K - 1;
    passes();
    rig.rows[1].keep_at++;
    refused("row 1, sequence 11: 4 inputs of a generated row with 0 saves to "
            "keep at 6 of 9");
    rig.rows[1].keep_at = UINT32_MAX;
    refused("to keep at 4294967295 of 9");
    rig.rows[1].keep = false; /* then it is not read */
    passes();
    plan_early();
    rig.rows[1].kind = ROW_PROMPT;
    refused("row 1, sequence 11: 4 inputs of a prompt row");
    rig.b.has_deltanet = false; /* then nothing is kept or replayed */
    rig.p.n_replays = 1;
    rig.replays[0].slot = UINT32_MAX;
    passes();
    plan_early();
    rig.b.drafts = false;
    rig.p.n_replays = 0;
    refused("row 0, sequence 10: 4 inputs to keep");
    plan_early()->n_rows = 1;
    rig.rows[0].n_tokens = rig.p.n_tokens = KEPT + 1;
    rig.b.keep_tokens = KEPT; /* the marks' room */
    refused("row 0, sequence 10: 10 inputs to keep; at most 9");
}

static void replays_are_of_slots_and_kept_inputs(void **state)
{
    (void)state;
    plan_early()->n_replays = PLAN_ROWS_MAX + 1;
    refused("513 replays; at most 512");
    plan_early();
    rig.replays[0].n_tokens = 0;
    refused("replay 0: 0 inputs at 0 of 9 kept ones; a row keeps 1 to 9");
    rig.replays[0].n_tokens = KEPT + 1;
    rig.b.keep_tokens = KEPT + 1;
    refused("replay 0: 10 inputs at 0 of 10");
    plan_early();
    rig.replays[1].n_tokens = 2;
    refused("replay 1: 2 inputs at 8 of 9");
    plan_early();
    rig.replays[1].slot = 0;
    refused("replay 1: replayed page 0 is written twice");
    rig.replays[1].slot = 1;
    refused("replay 1: slot to replay at page 1 of 64");
    rig.replays[1].slot = PAGES - 1;
    refused("replay 1: slot to replay at page 63 of 64");
    plan_early();
    rig.b.drafts = false;
    refused("2 replays for layers 0-2 of 4, whose kernels have no drafts");
    plan()->n_replays = 1; /* a last stage replays by itself */
    rig.replays[0] = (struct plan_replay){0, 0, 1};
    refused("1 replays for layers 0-4 of 4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_have_at_most_drafts_max),
        cmocka_unit_test(rows_with_drafts_are_generated_and_sample),
        cmocka_unit_test(rows_with_drafts_save_nothing),
        cmocka_unit_test(a_twin_has_no_source_with_drafts),
        cmocka_unit_test(histories_end_before_the_drafts),
        cmocka_unit_test(proposals_have_an_mtp_layer_and_blocks),
        cmocka_unit_test(rows_that_do_not_sample_have_the_next_token),
        cmocka_unit_test(a_last_stage_reads_the_tokens_of_drafts),
        cmocka_unit_test(kept_inputs_are_apart),
        cmocka_unit_test(replays_are_of_slots_and_kept_inputs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
