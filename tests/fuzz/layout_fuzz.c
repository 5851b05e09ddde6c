/* Arbitrary headers as the weights of small models with experts: in FP8, in
 * MXFP4, affine and plain.  An accepted layout is inside the files and inside
 * the memory, and no two parts of it overlap.
 *
 * The first byte chooses the model, the next three are the length of the data,
 * little-endian; the rest is the header. */
#include <stdlib.h>
#include <string.h>

#include "common/model/config.h"
#include "common/model/layout.h"
#include "fuzz.h"

#define SHAPE                                                      \
    "\"num_hidden_layers\":1,\"hidden_size\":32,\"vocab_size\":4," \
    "\"num_attention_heads\":2,\"num_key_value_heads\":1,"         \
    "\"head_dim\":16,\"max_position_embeddings\":64,"              \
    "\"num_experts_per_tok\":1,\"tie_word_embeddings\":true,"

#define QWEN                                                    \
    "{" SHAPE "\"model_type\":\"qwen3_moe\",\"num_experts\":2," \
    "\"moe_intermediate_size\":32,\"intermediate_size\":32,"    \
    "\"norm_topk_prob\":true"

static const char *const configs[] = {
    QWEN "}",
    QWEN ",\"quantization_config\":{\"quant_method\":\"fp8\",\"fmt\":\"e4m3\","
         "\"weight_block_size\":[128,128]}}",
    QWEN ",\"quantization\":{\"group_size\":32,\"bits\":4}}",
    "{" SHAPE "\"model_type\":\"gpt_oss\",\"num_local_experts\":2,"
    "\"intermediate_size\":32,\"sliding_window\":16,"
    "\"layer_types\":[\"sliding_attention\"],"
    "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4,"
    "\"original_max_position_embeddings\":16},"
    "\"quantization_config\":{\"quant_method\":\"mxfp4\"}}",
};

#define N_CONFIGS (sizeof configs / sizeof configs[0])

/* Bytes of memory that are written, [begin, end). */
struct range {
    uint64_t begin, end;
};

static int by_begin(const void *a, const void *b)
{
    const struct range *x = a, *y = b;

    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Returns the bytes that a slice has in memory. */
static uint64_t room_of(const struct slice *s)
{
    return s->widen ? s->bytes / dtype_bytes(s->dtype) * sizeof(float)
                    : s->bytes;
}

static uint32_t check_slices(const struct layout *l, struct range *written)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < l->n; i++) {
        const struct slice *s = &l->slices[i];
        uint64_t end = s->place + room_of(s);

        FUZZ_CHECK(s->bytes <= s->source->bytes);
        FUZZ_CHECK(s->offset <= s->source->bytes - s->bytes);
        FUZZ_CHECK(end <= (s->scratch ? l->scratch_bytes : l->bytes));
        if (!s->scratch) {
            written[n++] = (struct range){s->place, end};
        }
    }
    for (uint32_t i = 0; i < l->n_spreads; i++) {
        const struct spread *s = &l->spreads[i];
        uint64_t blocks = (s->first + (uint64_t)s->rows + 127) / 128;

        FUZZ_CHECK(s->from + blocks * s->row_bytes <= l->scratch_bytes);
        FUZZ_CHECK(s->to + s->rows * s->row_bytes <= l->bytes);
        written[n++] = (struct range){s->to, s->to + s->rows * s->row_bytes};
    }
    return n;
}

static void check(const struct layout *l)
{
    struct range *written = malloc((l->n + l->n_spreads + 1) * sizeof *written);
    uint32_t n;

    FUZZ_CHECK(written != NULL);
    n = check_slices(l, written);
    qsort(written, n, sizeof *written, by_begin);
    for (uint32_t i = 1; i < n; i++) {
        FUZZ_CHECK(written[i - 1].end <= written[i].begin);
    }
    free(written);
}

static void try_layout(const struct model_config *c, const uint8_t *data,
                       size_t n)
{
    struct checkpoint *files = NULL;
    struct layout l = {0};
    struct error e = {.code = ST_OK};
    uint64_t bytes = data[1] | (uint64_t)data[2] << 8 | (uint64_t)data[3] << 16;
    enum status st =
        checkpoint_parse(&files, (const char *)data + 4, n - 4, bytes, &e);

    if (st == ST_OK) {
        st = layout_of_model(&l, c, files, &e);
    }
    if (st == ST_OK) {
        check(&l);
    } else {
        FUZZ_CHECK(e.code == st && e.text[0] != '\0');
    }
    layout_fini(&l);
    checkpoint_close(&files);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct model_config c;
    struct error e;

    if (n < 4) {
        return 0;
    }
    FUZZ_CHECK(config_parse(&c, configs[data[0] % N_CONFIGS],
                            strlen(configs[data[0] % N_CONFIGS]), &e) == ST_OK);
    c.drafts = data[0] / N_CONFIGS % 2 == 1 && c.shape.n_heads > 0;
    try_layout(&c, data, n);
    return 0;
}
