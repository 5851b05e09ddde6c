/* Arbitrary bytes as a config.json.  An accepted file must keep every
 * guarantee on which sizes and layouts are computed. */
#include "common/model/sizes.h"
#include "fuzz.h"

static void check_attention(const struct model_shape *s)
{
    FUZZ_CHECK(s->n_heads <= MODEL_HEADS_MAX && s->n_kv_heads > 0);
    FUZZ_CHECK(s->n_heads % s->n_kv_heads == 0);
    FUZZ_CHECK(s->head_dim >= 2 && s->head_dim <= MODEL_HEAD_DIM_MAX);
    FUZZ_CHECK(s->rope.dim >= 2 && s->rope.dim % 2 == 0);
    FUZZ_CHECK(s->rope.dim <= s->head_dim);
    FUZZ_CHECK(s->rope.theta >= MODEL_THETA_MIN);
    FUZZ_CHECK(s->rope.theta <= MODEL_THETA_MAX);
    FUZZ_CHECK(s->rope.kind == ROPE_DEFAULT || s->rope.factor >= 1);
}

static void check_linear(const struct model_shape *s)
{
    FUZZ_CHECK(s->n_k_heads > 0 && s->n_v_heads % s->n_k_heads == 0);
    FUZZ_CHECK(s->k_dim > 0 && s->k_dim <= MODEL_KEY_DIM_MAX);
    FUZZ_CHECK(s->v_dim > 0 && s->v_dim <= MODEL_VALUE_DIM_MAX);
    FUZZ_CHECK(s->conv >= MODEL_CONV_MIN && s->conv <= MODEL_CONV_MAX);
}

static void check(const struct model_config *c)
{
    const struct model_shape *s = &c->shape;

    FUZZ_CHECK(s->n_layers > 0 && s->n_layers <= MODEL_LAYERS_MAX);
    FUZZ_CHECK(s->hidden > 0 && s->intermediate > 0 && s->vocab > 0);
    FUZZ_CHECK(s->norm_eps > 0 && s->norm_eps <= (float)MODEL_EPS_MAX);
    if (config_count(c, MIXER_ATTENTION, 0, s->n_layers) > 0) {
        check_attention(s);
    }
    if (config_count(c, MIXER_DELTANET, 0, s->n_layers) > 0) {
        check_linear(s);
    }
    FUZZ_CHECK(c->n_eos <= MODEL_EOS_MAX);
    for (uint32_t i = 0; i < c->n_eos; i++) {
        FUZZ_CHECK(c->eos[i] < s->vocab);
    }
    for (uint32_t b = 0; b < s->n_layers; b += 7) {
        struct kv_format kv = kv_format_plain(DTYPE_F32);
        struct sizes z =
            sizes_of(c, b, s->n_layers, SIZES_BLOCK_TOKENS_MAX, &kv);

        FUZZ_CHECK(z.weight_bytes >= z.parameters * 2);
        FUZZ_CHECK(z.page_bytes > 0);
        FUZZ_CHECK(z.pages_per_block + z.pages_per_slot > 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct model_config c;
    struct error e = {.code = ST_OK};
    enum status st = config_parse(&c, (const char *)data, n, &e);

    FUZZ_CHECK(st == e.code);
    if (st == ST_OK) {
        check(&c);
        (void)!config_add_generation(&c, (const char *)data, n, &e);
        check(&c);
    } else {
        FUZZ_CHECK(e.text[0] != '\0');
    }
    return 0;
}
