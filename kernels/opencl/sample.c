/* sample.c - sends sampling parameters to the device, and reads back ids and,
 * where requested, logprobs. */
#include "kernels/opencl/sample.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/opencl/host/launch.h"
#include "kernels/opencl/host/memory.h"
#include "kernels/opencl/operators.h"

#define WG   128
#define PART 4096 /* ids per work-group of a scan, as in sample.cl */

/* Parameters of a row, word by word as in sample.cl; lists are behind all
 * rows. */
struct ask {
    uint32_t flags;
    float factor;
    uint32_t top_k;
    float top_p, min_p;
    float repetition, presence, frequency;
    uint32_t seed[2], choice, index;
    uint32_t n_top;
    uint32_t biases, n_biases;
    uint32_t ids, n_ids, n_prompt;
    uint32_t unused[2];
};

#define ASK_WORDS (sizeof(struct ask) / sizeof(uint32_t))

enum {
    ASK_BIAS = 1,
    ASK_PENALTY = 2,
    ASK_LOGPROBS = 4,
    ASK_ADJUST = ASK_BIAS | ASK_PENALTY
};

#define FOUND    5 /* words per part, as in sample.cl */
#define LP_WORDS (1 + 2 * TOP_LOGPROBS_MAX)

struct opencl_sample {
    struct opencl_kernel *adjust, *scan, *sum, *draw, *logprobs;
    struct opencl_tensor adjusted, times; /* [max_logits, V] f32, uint32 */
    struct opencl_tensor found;           /* [max_logits, parts, FOUND] */
    struct opencl_tensor tokens;          /* [max_logits] uint32 */
    struct opencl_tensor lps;             /* [max_logits, LP_WORDS] */
    struct opencl_tensor asks;            /* [max_logits, ASK_WORDS], lists */
    uint32_t room;                        /* words for lists */
    struct ask *rows;                     /* [max_logits] to upload */
    struct ask *sent;                     /* [max_logits]; the device has */
    uint32_t n_sent;                      /* the first n_sent of them */
    uint32_t *lists;                      /* [room] */
    uint32_t *answer;                     /* [max_logits, LP_WORDS] */
};

_Static_assert(sizeof(struct ask) == 20 * sizeof(uint32_t), "as in sample.cl");

#define VARIANT(name)                              \
    {                                              \
        .file = "sample", .kernel = name, .wg = WG \
    }

static const struct opencl_variant adjust = VARIANT("sample_adjust");
static const struct opencl_variant scan = VARIANT("sample_scan");
static const struct opencl_variant sum = VARIANT("sample_sum");
static const struct opencl_variant draw = VARIANT("sample_draw");
static const struct opencl_variant logprobs = VARIANT("sample_logprobs");

static uint32_t parts_of(const struct opencl *c)
{
    return (c->w->shape.vocab + PART - 1) / PART;
}

static void request_scratch(struct opencl *c)
{
    struct opencl_sample *s = opencl_operators(c)->sample;
    const size_t n = c->sizes.max_logits, vocab = c->w->shape.vocab;
    const enum opencl_part part = OPENCL_IN_HEAD;

    opencl_scratch(c, part, &s->adjusted, n, vocab, sizeof(float));
    opencl_scratch(c, part, &s->times, n, vocab, sizeof(uint32_t));
    opencl_scratch(c, part, &s->found, n, (size_t)parts_of(c) * FOUND,
                   sizeof(uint32_t));
    opencl_scratch(c, part, &s->tokens, 1, n, sizeof(uint32_t));
    opencl_scratch(c, part, &s->lps, n, LP_WORDS, sizeof(uint32_t));
    opencl_scratch(c, OPENCL_KEEP, &s->asks, 1, n * ASK_WORDS + s->room,
                   sizeof(uint32_t));
}

static enum status choose_kernels(struct opencl *c, struct error *e)
{
    struct opencl_sample *s = opencl_operators(c)->sample;
    const struct {
        struct opencl_kernel **out;
        const struct opencl_variant *variant;
    } of[] = {{&s->adjust, &adjust},
              {&s->scan, &scan},
              {&s->sum, &sum},
              {&s->draw, &draw},
              {&s->logprobs, &logprobs}};
    const struct opencl_shape shape = {c->sizes.max_logits, c->w->shape.vocab,
                                       DTYPE_F32};
    enum status st = ST_OK;

    for (size_t i = 0; i < sizeof of / sizeof *of && st == ST_OK; i++) {
        st = opencl_choose(c, of[i].out, of[i].variant, 1, &shape, NULL, e);
    }
    return st;
}

enum status opencl_sample_setup(struct opencl *c, struct error *e)
{
    const size_t n = c->sizes.max_logits;
    const uint32_t context = c->w->shape.context;
    struct opencl_sample *s;

    if (!c->has_logits) {
        return ST_OK;
    }
    s = calloc(1, sizeof *s);
    opencl_operators(c)->sample = s;
    if (s) {
        s->room = 2 * LOGIT_BIASES_MAX + (context > 65536 ? context : 65536);
        s->rows = calloc(n, sizeof *s->rows);
        s->sent = calloc(n, sizeof *s->sent);
        s->lists = calloc(s->room, sizeof *s->lists);
        s->answer = calloc(n * LP_WORDS, sizeof *s->answer);
    }
    if (!s || !s->rows || !s->sent || !s->lists || !s->answer) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "not enough memory for sampling");
    }
    request_scratch(c);
    return choose_kernels(c, e);
}

void opencl_sample_free(struct opencl *c)
{
    if (opencl_operators(c)->sample) {
        free(opencl_operators(c)->sample->rows);
        free(opencl_operators(c)->sample->sent);
        free(opencl_operators(c)->sample->lists);
        free(opencl_operators(c)->sample->answer);
        free(opencl_operators(c)->sample);
        opencl_operators(c)->sample = NULL;
    }
}

/* ---- parameters ---- */

static struct ask ask_of(const struct sample_row *row)
{
    const struct sampling *s = row->sampling;
    const bool greedy = s->temperature < KERNELS_TEMPERATURE_MIN;

    return (struct ask){
        .flags = (s->n_biases > 0 ? ASK_BIAS : 0u) |
                 (sampling_penalises(s) ? ASK_PENALTY : 0u) |
                 (s->logprobs ? ASK_LOGPROBS : 0u),
        .factor = greedy ? 0.0f : 1.0f / s->temperature,
        .top_k = s->top_k,
        .top_p = s->top_p,
        .min_p = s->min_p,
        .repetition = s->repetition_penalty,
        .presence = s->presence_penalty,
        .frequency = s->frequency_penalty,
        /* Greedy rows draw no random number, so these stay the same in every
         * step and need no upload. */
        .seed = {greedy ? 0 : (uint32_t)s->seed,
                 greedy ? 0 : (uint32_t)(s->seed >> 32)},
        .choice = greedy ? 0 : row->choice,
        .index = greedy ? 0 : row->index,
        .n_top = s->logprobs ? s->n_top_logprobs : 0,
    };
}

/* Returns the words of a row's lists. */
static size_t list_words(const struct sample_row *row)
{
    const struct sampling *s = row->sampling;

    return (size_t)2 * s->n_biases + (sampling_penalises(s) ? row->n_ids : 0);
}

/* Writes a row's lists at word `at` of s->lists, and their places to ask. */
static void put_lists(const struct opencl *c, const struct sample_row *row,
                      struct ask *ask, size_t at)
{
    const struct sampling *s = row->sampling;
    const size_t base = c->sizes.max_logits * ASK_WORDS;
    uint32_t *out = opencl_operators(c)->sample->lists + at;

    ask->biases = (uint32_t)(base + at);
    ask->n_biases = s->n_biases;
    if (s->n_biases > 0) {
        memcpy(out, s->bias_tokens, s->n_biases * sizeof *out);
        memcpy(out + s->n_biases, s->biases, s->n_biases * sizeof *out);
    }
    if (ask->flags & ASK_PENALTY) {
        assert(row->n_prompt <= row->n_ids);
        ask->ids = ask->biases + 2 * s->n_biases;
        ask->n_ids = row->n_ids;
        ask->n_prompt = row->n_prompt;
        memcpy(out + (size_t)2 * s->n_biases, row->ids,
               row->n_ids * sizeof *out);
    }
    /* The device writes at these ids, so they must be below V. */
    for (uint32_t i = 0; i < s->n_biases; i++) {
        assert(s->bias_tokens[i] < c->w->shape.vocab);
    }
    for (uint32_t i = 0; i < ask->n_ids; i++) {
        assert(row->ids[i] < c->w->shape.vocab);
    }
}

static void launch_rows(struct opencl_call *a, uint32_t parts, uint32_t n,
                        uint64_t bytes)
{
    const size_t local[2] = {WG, 1};
    const size_t global[2] = {(size_t)parts * WG, n};

    opencl_launch(a, 2, global, local, bytes);
}

/* Uploads rows first .. end, unless the device has them from the last step. */
static void send_rows(struct opencl *c, uint32_t first, uint32_t end)
{
    struct opencl_sample *s = opencl_operators(c)->sample;
    const size_t bytes = (end - first) * sizeof *s->rows;

    if (end > s->n_sent ||
        memcmp(&s->sent[first], &s->rows[first], bytes) != 0) {
        opencl_upload(c, &s->asks, first * sizeof *s->rows, &s->rows[first],
                      bytes);
        memcpy(&s->sent[first], &s->rows[first], bytes);
        s->n_sent = first <= s->n_sent && end > s->n_sent ? end : s->n_sent;
    }
}

/* Adjusts rows first .. end, whose lists are the first `words` of s->lists. */
static void run_adjust(struct opencl *c, uint32_t first, uint32_t end,
                       size_t words)
{
    struct opencl_sample *s = opencl_operators(c)->sample;
    struct opencl_call a;
    const size_t base = c->sizes.max_logits * ASK_WORDS;

    send_rows(c, first, end);
    if (words == 0) {
        return;
    }
    opencl_upload(c, &s->asks, base * sizeof *s->lists, s->lists,
                  words * sizeof *s->lists);
    a = opencl_call(c, s->adjust);
    opencl_arg_tensor(&a, &s->adjusted);
    opencl_arg_tensor(&a, &s->times);
    opencl_arg_tensor(&a, &c->logits);
    opencl_arg_tensor(&a, &s->asks);
    opencl_arg_u32(&a, first);
    launch_rows(&a, 1, end - first,
                (uint64_t)(end - first) * c->w->shape.vocab * sizeof(float) *
                    2);
}

/* Uploads the parameters and adjusts the logits, as many rows at a time as have
 * room for their lists. */
static void ask_all(struct opencl *c, const struct sample_row *rows, uint32_t n)
{
    struct opencl_sample *s = opencl_operators(c)->sample;
    uint32_t first = 0;
    size_t words = 0;

    for (uint32_t i = 0; i < n; i++) {
        const size_t more = list_words(&rows[i]);

        if (more > s->room) {
            opencl_fail(
                c, ST_INVALID_ARGUMENT,
                "row %u has penalties on %u tokens; at most %u are supported",
                i, rows[i].n_ids, s->room - 2 * LOGIT_BIASES_MAX);
            return;
        }
        /* The lists so far are full: adjust these rows, then reuse the
         * space. */
        if (words + more > s->room) {
            run_adjust(c, first, i, words);
            first = i;
            words = 0;
        }
        s->rows[i] = ask_of(&rows[i]);
        put_lists(c, &rows[i], &s->rows[i], words);
        words += more;
    }
    run_adjust(c, first, n, words);
}

/* ---- drawing ---- */

/* Many work-groups scan a row for the best id; one then draws the token. */
static void draw_all(struct opencl *c, uint32_t n)
{
    struct opencl_sample *s = opencl_operators(c)->sample;
    const uint64_t bytes = (uint64_t)n * c->w->shape.vocab * sizeof(float);
    struct opencl_call a = opencl_call(c, s->scan);

    opencl_arg_tensor(&a, &s->found);
    opencl_arg_tensor(&a, &c->logits);
    opencl_arg_tensor(&a, &s->adjusted);
    opencl_arg_tensor(&a, &s->asks);
    launch_rows(&a, parts_of(c), n, bytes);
    a = opencl_call(c, s->draw);
    opencl_arg_tensor(&a, &s->tokens);
    opencl_arg_tensor(&a, &s->found);
    opencl_arg_tensor(&a, &c->logits);
    opencl_arg_tensor(&a, &s->adjusted);
    opencl_arg_tensor(&a, &s->asks);
    launch_rows(&a, 1, n, bytes);
}

static void read_logprobs(struct opencl *c, const struct sample_row *rows,
                          uint32_t n, struct sample_result *out)
{
    struct opencl_sample *s = opencl_operators(c)->sample;
    struct opencl_call a = opencl_call(c, s->sum);
    const uint64_t bytes = (uint64_t)n * c->w->shape.vocab * sizeof(float);

    opencl_arg_tensor(&a, &s->found);
    opencl_arg_tensor(&a, &c->logits);
    opencl_arg_tensor(&a, &s->asks);
    launch_rows(&a, parts_of(c), n, bytes);
    a = opencl_call(c, s->logprobs);
    opencl_arg_tensor(&a, &s->lps);
    opencl_arg_tensor(&a, &s->tokens);
    opencl_arg_tensor(&a, &s->found);
    opencl_arg_tensor(&a, &c->logits);
    opencl_arg_tensor(&a, &s->asks);
    launch_rows(&a, 1, n, bytes);
    opencl_download(c, &s->lps, 0, s->answer, n * LP_WORDS * sizeof *s->answer);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t *from = s->answer + (size_t)i * LP_WORDS;

        if (rows[i].sampling->logprobs && out[i].status == ST_OK) {
            assert(rows[i].sampling->n_top_logprobs <= TOP_LOGPROBS_MAX);
            memcpy(&out[i].logprob, from, sizeof out[i].logprob);
            memcpy(out[i].top, from + 1,
                   rows[i].sampling->n_top_logprobs * sizeof *out[i].top);
        }
    }
}

/* Logprobs cost two launches and a download, so they run on demand only. */
static bool any_logprobs(const struct sample_row *rows, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (rows[i].sampling->logprobs) {
            return true;
        }
    }
    return false;
}

/* Reads the tokens; V stands for logits that are not finite. */
static void read_tokens(struct opencl *c, uint32_t n, struct sample_result *out)
{
    struct opencl_sample *s = opencl_operators(c)->sample;

    opencl_download(c, &s->tokens, 0, s->answer, n * sizeof *s->answer);
    for (uint32_t i = 0; i < n; i++) {
        out[i].token = s->answer[i];
        out[i].status = s->answer[i] < c->w->shape.vocab ? ST_OK : ST_DATA_LOSS;
    }
}

enum status opencl_sample_rows(struct kernels *k, const struct sample_row *rows,
                               uint32_t n, struct sample_result *out,
                               struct error *e)
{
    struct opencl *c = opencl_of(k);

    assert(n <= c->sizes.max_logits);
    ask_all(c, rows, n);
    draw_all(c, n);
    read_tokens(c, n, out);
    if (any_logprobs(rows, n)) {
        read_logprobs(c, rows, n, out);
    }
    opencl_operator_end(c);
    if (c->health.failed.code != ST_OK && e) {
        *e = c->health.failed;
    }
    return c->health.failed.code;
}
