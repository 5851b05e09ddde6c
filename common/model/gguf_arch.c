#include "common/model/gguf_arch.h"

#include <stdio.h>
#include <string.h>

#include "common/base/quote.h"

#define NAME_BYTES 64 /* of an architecture in a key */

#define SUPPORTED                                                   \
    "llama, qwen2, qwen3, qwen3moe, qwen3next, qwen35, qwen35moe, " \
    "gpt-oss and gemma3"

static const struct {
    const char *name, *type;
    bool hybrid;
} families[GGUF_FAMILIES] = {
    [GGUF_LLAMA] = {"llama", "llama", false},
    [GGUF_QWEN2] = {"qwen2", "qwen2", false},
    [GGUF_QWEN3] = {"qwen3", "qwen3", false},
    [GGUF_QWEN3_MOE] = {"qwen3moe", "qwen3_moe", false},
    [GGUF_QWEN3_NEXT] = {"qwen3next", "qwen3_next", true},
    [GGUF_QWEN3_5] = {"qwen35", "qwen3_5_text", true},
    [GGUF_QWEN3_5_MOE] = {"qwen35moe", "qwen3_5_moe_text", true},
    [GGUF_GPT_OSS] = {"gpt-oss", "gpt_oss", false},
    [GGUF_GEMMA3] = {"gemma3", "gemma3_text", false},
};

static enum status find_family(struct gguf_arch *a, struct error *e)
{
    const char *text = NULL;
    size_t n = 0;
    enum status st =
        gguf_get_text(a->file, "general.architecture", &text, &n, e);

    if (st != ST_OK) {
        return st;
    }
    if (text == NULL) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "general.architecture is missing: this file holds no "
                         "model, or is not the first part of one");
    }
    for (int i = 0; i < GGUF_FAMILIES; i++) {
        if (strlen(families[i].name) == n &&
            memcmp(families[i].name, text, n) == 0) {
            a->family = (enum gguf_family)i;
            a->name = families[i].name;
            a->type = families[i].type;
            a->hybrid = families[i].hybrid;
            return ST_OK;
        }
    }
    return error_set(
        e, ST_UNIMPLEMENTED,
        "GGUF files of architecture %s are not supported; " SUPPORTED " are",
        quote_bytes(text, n).text);
}

struct full_key {
    char text[NAME_BYTES + GGUF_NAME_MAX];
};

static struct full_key full_key(const struct gguf_arch *a, const char *key)
{
    struct full_key k;

    snprintf(k.text, sizeof k.text, "%s.%s", a->name, key);
    return k;
}

const struct gguf_value *gguf_arch_find(const struct gguf_arch *a,
                                        const char *key)
{
    return gguf_find(a->file, full_key(a, key).text);
}

enum status gguf_arch_real(const struct gguf_arch *a, const char *key,
                           double *out, struct error *e)
{
    return gguf_get_real(a->file, full_key(a, key).text, out, e);
}

enum status gguf_arch_text(const struct gguf_arch *a, const char *key,
                           const char **text, size_t *n, struct error *e)
{
    return gguf_get_text(a->file, full_key(a, key).text, text, n, e);
}

/* Some files have a number for each layer; 0 stands for a layer without. */
static bool one_number(const struct gguf_value *v, int64_t *out)
{
    int64_t n;

    if (v->n == 0 || !gguf_whole(v, 0, out)) {
        return false;
    }
    for (uint64_t i = 1; i < v->n; i++) {
        if (!gguf_whole(v, i, &n) || (n != 0 && *out != 0 && n != *out)) {
            return false;
        }
        *out = n != 0 ? n : *out;
    }
    return true;
}

enum status gguf_arch_number(const struct gguf_arch *a, const char *key,
                             uint32_t min, uint32_t max, uint32_t *out,
                             struct error *e)
{
    const struct gguf_value *v = gguf_arch_find(a, key);
    int64_t n;

    if (v == NULL) {
        return ST_OK;
    }
    if (!one_number(v, &n)) {
        return error_set(e, ST_UNIMPLEMENTED,
                         "%s.%s is not one whole number for all layers, which "
                         "is not supported",
                         a->name, key);
    }
    if (n < min || n > max) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s.%s is %lld, %u to %u are allowed", a->name, key,
                         (long long)n, min, max);
    }
    *out = (uint32_t)n;
    return ST_OK;
}

struct number {
    const char *key;
    uint32_t min, max;
    uint32_t *out;
    bool optional;
};

static enum status read_numbers(const struct gguf_arch *a,
                                const struct number *rows, size_t n,
                                struct error *e)
{
    enum status st = ST_OK;

    for (size_t i = 0; st == ST_OK && i < n; i++) {
        const struct number *r = &rows[i];

        if (!r->optional && gguf_arch_find(a, r->key) == NULL) {
            return error_set(e, ST_INVALID_ARGUMENT, "%s.%s is missing",
                             a->name, r->key);
        }
        st = gguf_arch_number(a, r->key, r->min, r->max, r->out, e);
    }
    return st;
}

/* ssm.inner_size is Hv * Dv, ssm.state_size Dk. */
static enum status read_linear(struct gguf_arch *a, struct error *e)
{
    uint32_t inner = 0;
    const struct number rows[] = {
        {"ssm.group_count", 1, MODEL_HEADS_MAX, &a->k_heads, false},
        {"ssm.time_step_rank", 1, MODEL_HEADS_MAX, &a->v_heads, false},
        {"ssm.state_size", 1, MODEL_KEY_DIM_MAX, &a->k_dim, false},
        {"ssm.inner_size", 1, MODEL_HEADS_MAX * MODEL_VALUE_DIM_MAX, &inner,
         false},
        {"ssm.conv_kernel", MODEL_CONV_MIN, MODEL_CONV_MAX, &a->conv, false},
    };
    enum status st = read_numbers(a, rows, sizeof rows / sizeof rows[0], e);

    if (st != ST_OK) {
        return st;
    }
    if (inner % a->v_heads != 0 || a->v_heads % a->k_heads != 0 ||
        inner / a->v_heads > MODEL_VALUE_DIM_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s.ssm.inner_size %u, time_step_rank %u and "
                         "group_count %u are no heads",
                         a->name, inner, a->v_heads, a->k_heads);
    }
    a->v_dim = inner / a->v_heads;
    return ST_OK;
}

enum status gguf_arch_read(struct gguf_arch *a, const struct gguf *g,
                           struct error *e)
{
    const struct number rows[] = {
        {"block_count", 1, MODEL_LAYERS_MAX, &a->n_layers, false},
        {"nextn_predict_layers", 0, MODEL_MTP_MAX, &a->n_mtp, true},
        {"embedding_length", 1, MODEL_HIDDEN_MAX, &a->hidden, false},
        {"attention.head_count", 1, MODEL_HEADS_MAX, &a->n_heads, false},
        {"attention.head_count_kv", 1, MODEL_HEADS_MAX, &a->n_kv_heads, true},
        {"attention.key_length", 1, MODEL_HEAD_DIM_MAX, &a->head_dim, true},
    };
    enum status st;

    *a = (struct gguf_arch){.file = g};
    st = find_family(a, e);
    st = st == ST_OK ? read_numbers(a, rows, sizeof rows / sizeof rows[0], e)
                     : st;
    if (st != ST_OK) {
        return st;
    }
    if (a->n_mtp >= a->n_layers) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s.nextn_predict_layers is %u of %u layers", a->name,
                         a->n_mtp, a->n_layers);
    }
    a->n_layers -= a->n_mtp;
    a->n_kv_heads = a->n_kv_heads > 0 ? a->n_kv_heads : a->n_heads;
    a->head_dim = a->head_dim > 0 ? a->head_dim : a->hidden / a->n_heads;
    if (a->head_dim < 2 || a->head_dim > MODEL_HEAD_DIM_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s.embedding_length %u over %u heads is none of 2 "
                         "to %d",
                         a->name, a->hidden, a->n_heads, MODEL_HEAD_DIM_MAX);
    }
    return a->hybrid ? read_linear(a, e) : ST_OK;
}
