/* Rows with drafts against plain decoding: the same tokens, logprobs, proposals
 * and, after each step, the same bits of the recurrent state. */
#include <stdlib.h>
#include <string.h>

#include "tests/golden/runner_drafts.h"
#include "tests/kernels/random_model.h"
#include "tests/unit/cmocka.h"

#define VOCAB    48
#define LAYERS   3
#define PROMPT   21 /* its last block is partly filled */
#define STEPS    10 /* tokens of a sequence */
#define SIDES    4  /* sequences of a plan */
#define PLAINS   8  /* sequences that are decoded without drafts */
#define LOGITS   5  /* of a head call: a row needs several */
#define TOKENS   24 /* of a pass: a plan needs several */
#define KEPT     12 /* inputs: less than a pass could keep */
#define TOPS     3
#define OPENERS  3 /* tokens of the prompt of a row beside drafts */
#define PATTERNS 10000

/* Results of plain decoding for one prompt. */
struct plain {
    uint32_t ids[PROMPT];
    struct sampling sampling;
    uint32_t tokens[STEPS];
    float logprobs[STEPS];
    struct token_logprob top[STEPS][TOPS];
    uint32_t drafts[STEPS][DRAFTS_MAX], n_drafts[STEPS]; /* proposed after */
    char *states[STEPS]; /* [state_bytes] before the token is computed */
    struct run_seq base; /* the prompt, and the first token */
};

struct rig {
    struct random_model model;
    struct random_shape shape;
    struct runner r;
    struct kernels *k;
    struct kernels_ops ops; /* of the kernels, where a test changes some */
    size_t layer_state, layer_tail, state_bytes;
    struct dice dice;
    struct plain plains[PLAINS];
    char *state;
};

/* ---- models ---- */

static void draw_shape(struct random_shape *s, struct dice *d, bool features)
{
    struct model_shape *m = &s->shape;

    random_shape(s, d);
    m->n_layers = LAYERS;
    m->hidden = 24;
    m->intermediate = 31;
    m->vocab = VOCAB;
    m->context = 128;
    m->n_kv_heads = 1 + dice_below(d, 2);
    m->n_heads = 2 * m->n_kv_heads;
    m->head_dim = m->rope.dim = 8;
    m->n_k_heads = 1 + dice_below(d, 2);
    m->n_v_heads = 2 * m->n_k_heads;
    m->k_dim = 5 + dice_below(d, 12);
    m->v_dim = 7 + dice_below(d, 12);
    m->conv = 2 + dice_below(d, 4);
    s->quantised = false;
    for (uint32_t i = 0; i < LAYERS; i++) {
        s->mixers[i] = i == 1 ? MIXER_ATTENTION : MIXER_DELTANET;
    }
    if (features) {
        s->mixers[0] = MIXER_ATTENTION;
        random_features(s, d);
        s->mixers[0] = MIXER_WINDOW;
        m->window = 6;
    }
    s->mtp = true;
}

static struct rig *rig_new(uint32_t seed, bool features)
{
    struct rig *g = calloc(1, sizeof *g);
    struct kernels_options o = {.device = "cpu",
                                .block_tokens = 4,
                                .max_tokens = TOKENS,
                                .max_logits = LOGITS,
                                .keep_tokens = KEPT,
                                .n_threads = 1};
    const struct model_shape *s = &g->shape.shape;

    assert_non_null(g);
    g->dice.state = seed;
    draw_shape(&g->shape, &g->dice, features);
    random_model_new(&g->model, &g->shape, &g->dice);
    o.kv = kv_format_plain((enum dtype)(seed % 3));
    runner_open(&g->r, &g->model.w, &o, 24 * (PLAINS + SIDES),
                PLAINS + SIDES + 2, 3);
    runner_poison(&g->r);
    g->k = forward_kernels(g->r.forward);
    g->ops = *g->k->ops;
    g->layer_state = (size_t)s->n_v_heads * s->k_dim * s->v_dim * sizeof(float);
    g->layer_tail =
        ((size_t)2 * s->n_k_heads * s->k_dim + s->n_v_heads * s->v_dim) *
        (s->conv - 1) * dtype_bytes(o.kv.dtype);
    g->state_bytes = LAYERS * (g->layer_state + g->layer_tail);
    g->state = calloc(1, g->state_bytes);
    assert_non_null(g->state);
    return g;
}

static void rig_free(struct rig *g)
{
    for (uint32_t i = 0; i < PLAINS; i++) {
        for (uint32_t t = 0; t < STEPS; t++) {
            free(g->plains[i].states[t]);
        }
        if (g->plains[i].base.ids != NULL) {
            runner_stop(&g->r, &g->plains[i].base);
        }
    }
    free(g->state);
    runner_close(&g->r);
    random_model_free(&g->model);
    free(g);
}

/* Reads a slot's state and tail in all linear layers. */
static void read_state(struct rig *g, uint32_t slot, char *out)
{
    for (uint32_t i = 0; i < LAYERS; i++) {
        if (g->shape.mixers[i] == MIXER_DELTANET) {
            kernels_slot_copy(
                g->k, i, slot,
                (void *[MIXER_PARTS_MAX]){out, out + g->layer_state}, false);
        }
        out += g->layer_state + g->layer_tail;
    }
}

/* ---- plain decoding ---- */

static const uint32_t bias_tokens[2] = {3, 20};
static const float biases[2] = {2.5f, -3};

/* Greedy, sampled, with penalties, with penalties and biases. */
static struct sampling sampling_of(uint32_t i)
{
    struct sampling s = {
        .top_p = 1, .repetition_penalty = 1, .seed = 77 + i, .logprobs = true};

    s.n_top_logprobs = i % 2 == 0 ? TOPS : 0;
    s.temperature = i % 4 > 0 ? 0.9f : 0;
    s.top_p = i % 4 == 1 ? 0.9f : 1;
    if (i % 4 >= 2) {
        s.repetition_penalty = 1.3f;
        s.frequency_penalty = 0.5f;
        s.presence_penalty = -0.4f;
    }
    if (i % 4 == 3) {
        s.n_biases = 2;
        s.bias_tokens = bias_tokens;
        s.biases = biases;
    }
    return s;
}

/* Notes what the newest row gave for token `at`. */
static void note(struct rig *g, struct plain *p, uint32_t row, uint32_t at)
{
    const struct plan_result *out = &g->r.result;

    p->tokens[at] = out->tokens[row];
    p->logprobs[at] = out->logprobs[row];
    memcpy(p->top[at], out->top[row],
           p->sampling.n_top_logprobs * sizeof p->top[at][0]);
    p->n_drafts[at] = out->n_drafts[row];
    memcpy(p->drafts[at], out->drafts[row], sizeof p->drafts[at]);
}

/* Decodes one token a row, each with as many proposals as there is room for. */
static void decode(struct rig *g, struct plain *p, struct run_seq *s)
{
    for (uint32_t at = 1; at < STEPS; at++) {
        uint32_t row;

        p->states[at - 1] = calloc(1, g->state_bytes);
        assert_non_null(p->states[at - 1]);
        read_state(g, s->slot, p->states[at - 1]);
        row = runner_add(&g->r, s, 1, true, NULL);
        runner_step(&g->r);
        note(g, p, row, at);
        run_seq_push(s, p->tokens[at]);
    }
    p->states[STEPS - 1] = calloc(1, g->state_bytes);
    assert_non_null(p->states[STEPS - 1]);
    read_state(g, s->slot, p->states[STEPS - 1]);
}

static void make_plain(struct rig *g, uint32_t i)
{
    struct plain *p = &g->plains[i];
    struct run_seq s;
    uint32_t row;

    for (uint32_t t = 0; t < PROMPT; t++) {
        p->ids[t] = dice_below(&g->dice, VOCAB);
    }
    p->sampling = sampling_of(i);
    runner_start(&g->r, &p->base, p->ids, PROMPT, STEPS);
    p->base.sampling = p->sampling;
    p->base.choice = i;
    p->base.mtp = true;
    p->base.propose = DRAFTS_MAX;
    p->base.keeps_windows = true;
    row = runner_add(&g->r, &p->base, PROMPT, true, NULL);
    runner_step(&g->r);
    note(g, p, row, 0);
    run_seq_push(&p->base, p->tokens[0]);
    runner_fork(&g->r, &s, &p->base, PROMPT, p->base.slot);
    runner_step(&g->r); /* the copies */
    decode(g, p, &s);
    runner_stop(&g->r, &s);
}

/* ---- with drafts ---- */

enum drafter { RIGHT, NEVER, THIRD, RANDOM, DRAFTERS };

/* A sequence with drafts beside others. */
struct side {
    struct plain *p;
    struct run_seq s;
    enum drafter drafter;
    uint32_t count, row, n_drafts; /* drafts so far; of the row */
    uint32_t n_accepted;           /* by what plain decoding gave */
    bool live;
};

static bool is_right(struct rig *g, struct side *a)
{
    a->count++;
    switch (a->drafter) {
    case RIGHT:
        return true;
    case NEVER:
        return false;
    case THIRD:
        return a->count % 3 == 0;
    default:
        return dice_below(&g->dice, 10) < 6;
    }
}

/* Drafts what plain decoding gave, or a token beside it. */
static void draft(struct rig *g, struct side *a, uint32_t k)
{
    uint32_t made = a->s.n_ids - PROMPT, drafts[DRAFTS_MAX];
    bool right = true;

    k = k < STEPS - made ? k : STEPS - made - 1;
    a->n_drafts = k;
    a->n_accepted = 0;
    for (uint32_t i = 0; i < k; i++) {
        uint32_t token = a->p->tokens[made + i];

        right = is_right(g, a) && right;
        a->n_accepted += right;
        drafts[i] =
            right ? token : (token + 1 + dice_below(&g->dice, 40)) % VOCAB;
        right = right && drafts[i] == token;
    }
    a->row = runner_verify(&g->r, &a->s, drafts, k, NULL);
}

static void same_logprobs(const struct plain *p, uint32_t at, float logprob,
                          const struct token_logprob *top)
{
    assert_memory_equal(&logprob, &p->logprobs[at], sizeof logprob);
    for (uint32_t i = 0; i < p->sampling.n_top_logprobs; i++) {
        assert_int_equal(top[i].token, p->top[at][i].token);
        assert_memory_equal(&top[i].logprob, &p->top[at][i].logprob,
                            sizeof top[i].logprob);
    }
}

/* Compares what a row gave, and left behind, with plain decoding. */
static void check_side(struct rig *g, struct side *a)
{
    const struct plan_result *out = &g->r.result;
    uint32_t made = a->s.n_ids - PROMPT, n, at;

    n = runner_accept(&g->r, &a->s, a->row);
    at = made + n - 1; /* the last token */
    assert_int_equal(n, a->n_accepted + 1);
    assert_int_equal(out->outcomes[a->row], ROW_DONE);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(a->s.ids[PROMPT + made + i], a->p->tokens[made + i]);
    }
    for (uint32_t i = 0; i + 1 < n; i++) {
        same_logprobs(a->p, made + i, out->draft_logprobs[a->row][i],
                      out->draft_top[a->row][i]);
    }
    same_logprobs(a->p, at, out->logprobs[a->row], out->top[a->row]);
    for (uint32_t i = 0; i < a->s.n_drafts && i < a->p->n_drafts[at]; i++) {
        assert_int_equal(a->s.drafts[i], a->p->drafts[at][i]);
    }
    memset(g->state, 0, g->state_bytes);
    read_state(g, a->s.slot, g->state);
    assert_memory_equal(g->state, a->p->states[at], g->state_bytes);
    assert_int_equal(a->s.n_done, PROMPT + at);
}

static void side_start(struct rig *g, struct side *a, uint32_t pattern)
{
    *a = (struct side){.p = &g->plains[dice_below(&g->dice, PLAINS)],
                       .drafter = (enum drafter)(pattern % DRAFTERS),
                       .live = true};
    runner_fork(&g->r, &a->s, &a->p->base, PROMPT, a->p->base.slot);
    a->s.sampling = a->p->sampling;
    /* A sequence without the layer has no proposals that compare. */
    a->s.mtp = dice_below(&g->dice, 2) > 0;
}

/* Adds a row of a new prompt, so that the plan mixes the kinds. */
static void add_prompt(struct rig *g, struct run_seq *s)
{
    uint32_t ids[OPENERS] = {1, 2, 3};

    runner_start(&g->r, s, ids, OPENERS, 1);
    runner_add(&g->r, s, OPENERS, true, NULL);
}

static void run_patterns(struct rig *g, uint32_t first)
{
    struct side sides[SIDES];
    struct run_seq prompt;
    bool live = true;

    for (uint32_t i = 0; i < SIDES; i++) {
        side_start(g, &sides[i], first + i);
    }
    while (live) {
        live = false;
        for (uint32_t i = 0; i < SIDES; i++) {
            sides[i].live = sides[i].s.n_ids < PROMPT + STEPS;
            live |= sides[i].live;
            sides[i].s.propose =
                dice_below(&g->dice, 4) == 0 ? dice_below(&g->dice, 9) : 0;
            if (sides[i].live) {
                draft(g, &sides[i], dice_below(&g->dice, DRAFTS_MAX + 1));
            }
        }
        if (dice_below(&g->dice, 4) == 0) {
            add_prompt(g, &prompt);
            runner_step(&g->r);
            runner_stop(&g->r, &prompt);
        } else {
            runner_step(&g->r);
        }
        for (uint32_t i = 0; i < SIDES; i++) {
            if (sides[i].live) {
                check_side(g, &sides[i]);
            }
        }
    }
    for (uint32_t i = 0; i < SIDES; i++) {
        runner_stop(&g->r, &sides[i].s);
    }
}

static void patterns_leave_what_plain_decoding_leaves(void **state)
{
    (void)state;
    for (uint32_t model = 0; model < 4; model++) {
        struct rig *g = rig_new(11 + model, model % 2 == 1);

        for (uint32_t i = 0; i < PLAINS; i++) {
            make_plain(g, i);
        }
        for (uint32_t i = 0; i < PATTERNS / 4; i += SIDES) {
            run_patterns(g, i);
        }
        rig_free(g);
    }
}

/* ---- the end of a row ---- */

/* Starts a sequence after the prompt of plains[0], which has no penalties, and
 * adds a row with all the drafts that plain decoding would give. */
static uint32_t all_right(struct rig *g, struct run_seq *s,
                          const struct sampling *how)
{
    const struct plain *p = &g->plains[0];

    runner_fork(&g->r, s, &p->base, PROMPT, p->base.slot);
    s->sampling = *how;
    return runner_verify(&g->r, s, p->tokens + 1, DRAFTS_MAX, NULL);
}

/* Returns the first place behind the first token whose token is new. */
static uint32_t fresh_token(const struct plain *p)
{
    for (uint32_t at = 2; at <= DRAFTS_MAX; at++) {
        uint32_t seen = 0;

        for (uint32_t i = 1; i < at; i++) {
            seen += p->tokens[i] == p->tokens[at];
        }
        if (seen == 0) {
            return at;
        }
    }
    fail_msg("all drafts repeat one token");
    return 0;
}

static void gets(struct rig *g, struct run_seq *s, uint32_t row, uint32_t n)
{
    const struct plain *p = &g->plains[0];

    runner_step(&g->r);
    assert_int_equal(g->r.result.outcomes[row], ROW_DONE);
    assert_int_equal(runner_accept(&g->r, s, row), n);
    assert_memory_equal(s->ids + PROMPT, p->tokens, (n + 1) * sizeof *s->ids);
    memset(g->state, 0, g->state_bytes);
    read_state(g, s->slot, g->state);
    assert_memory_equal(g->state, p->states[n], g->state_bytes);
}

static struct rig *rig_plain(void)
{
    struct rig *g = rig_new(17, false);

    make_plain(g, 0);
    return g;
}

static void an_end_token_is_the_last_one(void **state)
{
    struct rig *g = rig_plain();
    const struct plain *p = &g->plains[0];
    uint32_t at = fresh_token(p);
    const uint32_t eos[2] = {VOCAB - 1, p->tokens[at]};
    struct sampling how = p->sampling;
    struct run_seq s;

    (void)state;
    g->r.plan.eos = eos;
    g->r.plan.n_eos = 2;
    how.ignore_eos = true;
    gets(g, &s, all_right(g, &s, &how), DRAFTS_MAX + 1);
    assert_in_range(s.n_drafts, 0, DRAFTS_MAX);
    runner_stop(&g->r, &s);
    how.ignore_eos = false;
    gets(g, &s, all_right(g, &s, &how), at);
    assert_int_equal(s.n_drafts, 0); /* nothing follows an end */
    runner_stop(&g->r, &s);
    rig_free(g);
}

static void a_stop_token_is_the_last_one(void **state)
{
    struct rig *g = rig_plain();
    const struct plain *p = &g->plains[0];
    uint32_t at = fresh_token(p);
    struct sampling how = p->sampling;
    struct run_seq s;

    (void)state;
    how.ignore_eos = true; /* no effect on stop tokens */
    how.stop_tokens = &p->tokens[at];
    how.n_stop_tokens = 1;
    gets(g, &s, all_right(g, &s, &how), at);
    runner_stop(&g->r, &s);
    rig_free(g);
}

/* The row whose tokens from `damaged` on are not finite; UINT32_MAX: none. */
static uint32_t damaged;
static enum status (*true_sample)(struct kernels *k,
                                  const struct sample_row *rows, uint32_t n,
                                  struct sample_result *out, struct error *e);

static enum status spoil(struct kernels *k, const struct sample_row *rows,
                         uint32_t n, struct sample_result *out, struct error *e)
{
    enum status st = true_sample(k, rows, n, out, e);

    for (uint32_t i = 0; i < n; i++) {
        if (rows[i].sampling->logprobs && rows[i].index >= damaged) {
            out[i].status = ST_DATA_LOSS;
            out[i].token = 0;
        }
    }
    return st;
}

/* The sequence gets what it would get without drafts: the tokens before the
 * damage, and then none. */
static void a_row_ends_before_logits_that_are_not_finite(void **state)
{
    struct rig *g = rig_plain();
    const struct plain *p = &g->plains[0];
    struct run_seq s;
    uint32_t row;

    (void)state;
    true_sample = g->ops.sample;
    g->ops.sample = spoil;
    g->k->ops = &g->ops;
    damaged = 4;
    gets(g, &s, all_right(g, &s, &p->sampling), 3);
    row = runner_verify(&g->r, &s, p->tokens + 4, 2, NULL);
    runner_step(&g->r);
    assert_int_equal(g->r.result.outcomes[row], ROW_NOT_FINITE);
    assert_int_equal(g->r.result.tokens[row], TOKEN_NONE);
    assert_int_equal(g->r.result.n_accepted[row], 0);
    assert_int_equal(g->r.result.n_drafts[row], 0);
    runner_stop(&g->r, &s);
    rig_free(g);
}

/* A draft of another token is refused, so what is behind it does not count. */
static void damage_behind_a_refused_draft_is_not_seen(void **state)
{
    struct rig *g = rig_plain();
    const struct plain *p = &g->plains[0];
    uint32_t drafts[2] = {p->tokens[1], (p->tokens[2] + 1) % VOCAB}, row;
    struct run_seq s;

    (void)state;
    true_sample = g->ops.sample;
    g->ops.sample = spoil;
    g->k->ops = &g->ops;
    damaged = 3;
    runner_fork(&g->r, &s, &p->base, PROMPT, p->base.slot);
    s.sampling = p->sampling;
    row = runner_verify(&g->r, &s, drafts, 2, NULL);
    gets(g, &s, row, 2);
    runner_stop(&g->r, &s);
    rig_free(g);
}

/* ---- beside saves, twins and prompts in parts ---- */

/* Runs a prompt with a checkpoint inside it and a twin, beside a row with
 * drafts or alone, and returns its tokens. */
static void run_beside(struct rig *g, bool drafts, uint32_t tokens[2],
                       char *saved)
{
    const struct plain *p = &g->plains[0];
    uint32_t ids[70], page = runner_take_slot(&g->r), rows[3] = {0};
    struct run_seq a, twin = {.choice = 5}, s;

    for (uint32_t i = 0; i < 70; i++) {
        ids[i] = i * 7 % VOCAB;
    }
    runner_start(&g->r, &a, ids, 70, 1);
    a.sampling = g->plains[1].sampling;
    a.mtp = drafts;
    a.propose = 1;
    if (drafts) {
        rows[2] = all_right(g, &s, &p->sampling);
    }
    rows[0] = runner_add(&g->r, &a, 70, true, NULL);
    runner_save(&g->r, 64, page);
    twin.sampling = a.sampling;
    rows[1] = runner_twin(&g->r, &twin, &a, rows[0], NULL);
    if (drafts) {
        gets(g, &s, rows[2], DRAFTS_MAX + 1);
        runner_stop(&g->r, &s);
    } else {
        runner_step(&g->r);
    }
    assert_int_equal(g->r.result.n_drafts[rows[0]], drafts);
    assert_int_equal(g->r.result.n_drafts[rows[1]], 0); /* a twin has none */
    tokens[0] = runner_token(&g->r, rows[0]);
    tokens[1] = runner_token(&g->r, rows[1]);
    memset(saved, 0, g->state_bytes);
    read_state(g, page, saved);
    runner_stop(&g->r, &twin);
    runner_stop(&g->r, &a);
    runner_give_slot(&g->r, page);
}

static void drafts_change_nothing_beside_them(void **state)
{
    struct rig *g = rig_plain();
    uint32_t alone[2], beside[2];
    char *saved = calloc(2, g->state_bytes);

    (void)state;
    assert_non_null(saved);
    g->plains[1].sampling = sampling_of(1);
    run_beside(g, false, alone, saved);
    run_beside(g, true, beside, saved + g->state_bytes);
    assert_memory_equal(alone, beside, sizeof alone);
    assert_memory_equal(saved, saved + g->state_bytes, g->state_bytes);
    free(saved);
    rig_free(g);
}

/* ---- failed steps ---- */

static enum status (*true_end)(struct kernels *k, struct error *e);
static uint32_t fails_at; /* the end of a step that fails; 0: none */

static enum status fail_end(struct kernels *k, struct error *e)
{
    enum status st = true_end(k, e);

    if (fails_at > 0 && --fails_at == 0) {
        return error_set(e, ST_INTERNAL, "artificial");
    }
    return st;
}

/* A row has no token if its pass fails, or that of the MTP layer.  The same
 * plan, whose copies restore the slot, then gives all of them. */
static void a_failed_step_is_computed_again(void **state)
{
    struct rig *g = rig_plain();
    const struct plain *p = &g->plains[0];

    (void)state;
    true_end = g->ops.end;
    g->ops.end = fail_end;
    g->k->ops = &g->ops;
    for (uint32_t at = 1; at <= 2; at++) {
        struct run_seq s;
        uint32_t row = all_right(g, &s, &p->sampling);

        fails_at = at;
        forward_run(g->r.forward, &g->r.plan, &g->r.result);
        assert_int_equal(g->r.result.status, ST_INTERNAL);
        assert_string_equal(g->r.result.error.text, "artificial");
        assert_int_equal(g->r.result.tokens[row], TOKEN_NONE);
        assert_int_equal(fails_at, 0);
        gets(g, &s, row, DRAFTS_MAX + 1);
        runner_stop(&g->r, &s);
    }
    rig_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_leave_what_plain_decoding_leaves),
        cmocka_unit_test(an_end_token_is_the_last_one),
        cmocka_unit_test(a_stop_token_is_the_last_one),
        cmocka_unit_test(a_row_ends_before_logits_that_are_not_finite),
        cmocka_unit_test(damage_behind_a_refused_draft_is_not_seen),
        cmocka_unit_test(drafts_change_nothing_beside_them),
        cmocka_unit_test(a_failed_step_is_computed_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
