#include "common/model/gguf_tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_BYTES 96

/* Changes of a tensor by the conversion. */
enum change {
    PLAIN,
    ROTARY,  /* rows of q or k, in llama */
    EXPERTS, /* [E, rows, cols]: the layout puts rows where they belong */
    QKV,     /* value heads after rows q and k */
    HEADS_ROWS,
    HEADS, /* one row or element a value head */
    COLUMNS,
    CONV, /* [C, K], with value heads as QKV; a checkpoint has [C, 1, K] */
    A_LOG,
    GATE,  /* [H]; a checkpoint has [1, H] */
    GROUPS /* ssm_ba */
};

/* A name after "blk.N.", and the key after "layers.N.". */
struct row {
    const char *name, *key;
    enum change change;
};

static const struct row shared_rows[] = {
    {"attn_norm.weight", "input_layernorm.weight", PLAIN},
    {"attn_q.weight", "self_attn.q_proj.weight", ROTARY},
    {"attn_q.bias", "self_attn.q_proj.bias", ROTARY},
    {"attn_k.weight", "self_attn.k_proj.weight", ROTARY},
    {"attn_k.bias", "self_attn.k_proj.bias", ROTARY},
    {"attn_v.weight", "self_attn.v_proj.weight", PLAIN},
    {"attn_v.bias", "self_attn.v_proj.bias", PLAIN},
    {"attn_output.weight", "self_attn.o_proj.weight", PLAIN},
    {"attn_output.bias", "self_attn.o_proj.bias", PLAIN},
    {"attn_q_norm.weight", "self_attn.q_norm.weight", PLAIN},
    {"attn_k_norm.weight", "self_attn.k_norm.weight", PLAIN},
    {"attn_sinks.weight", "self_attn.sinks", PLAIN},
    {"post_attention_norm.weight", "post_attention_layernorm.weight", PLAIN},
    {"post_ffw_norm.weight", "post_feedforward_layernorm.weight", PLAIN},
    {"ffn_gate.weight", "mlp.gate_proj.weight", PLAIN},
    {"ffn_up.weight", "mlp.up_proj.weight", PLAIN},
    {"ffn_down.weight", "mlp.down_proj.weight", PLAIN},
    {"ffn_gate_exps.weight", "mlp.switch_mlp.gate_proj.weight", EXPERTS},
    {"ffn_gate_exps.bias", "mlp.switch_mlp.gate_proj.bias", EXPERTS},
    {"ffn_up_exps.weight", "mlp.switch_mlp.up_proj.weight", EXPERTS},
    {"ffn_up_exps.bias", "mlp.switch_mlp.up_proj.bias", EXPERTS},
    {"ffn_down_exps.weight", "mlp.switch_mlp.down_proj.weight", EXPERTS},
    {"ffn_gate_up_exps.weight", "mlp.switch_mlp.gate_up_proj.weight", EXPERTS},
    {"ffn_down_exps.bias", "mlp.experts.down_proj_bias", PLAIN},
    {"ffn_gate_shexp.weight", "mlp.shared_expert.gate_proj.weight", PLAIN},
    {"ffn_up_shexp.weight", "mlp.shared_expert.up_proj.weight", PLAIN},
    {"ffn_down_shexp.weight", "mlp.shared_expert.down_proj.weight", PLAIN},
    {"ffn_gate_inp_shexp.weight", "mlp.shared_expert_gate.weight", GATE},
    {"attn_qkv.weight", "linear_attn.in_proj_qkv.weight", QKV},
    {"attn_gate.weight", "linear_attn.in_proj_z.weight", HEADS_ROWS},
    {"ssm_alpha.weight", "linear_attn.in_proj_a.weight", HEADS},
    {"ssm_beta.weight", "linear_attn.in_proj_b.weight", HEADS},
    {"ssm_ba.weight", "linear_attn.in_proj_b.weight", GROUPS},
    {"ssm_beta_alpha.weight", "linear_attn.in_proj_b.weight", GROUPS},
    {"ssm_conv1d.weight", "linear_attn.conv1d.weight", CONV},
    {"ssm_dt.bias", "linear_attn.dt_bias", HEADS},
    {"ssm_a", "linear_attn.A_log", A_LOG},
    {"ssm_norm.weight", "linear_attn.norm.weight", PLAIN},
    {"ssm_out.weight", "linear_attn.out_proj.weight", COLUMNS},
};

static const struct row qwen_rows[] = {
    {"ffn_norm.weight", "post_attention_layernorm.weight", PLAIN},
    {"ffn_gate_inp.weight", "mlp.gate.weight", PLAIN},
};

static const struct row gpt_oss_rows[] = {
    {"ffn_norm.weight", "post_attention_layernorm.weight", PLAIN},
    {"ffn_gate_inp.weight", "mlp.router.weight", PLAIN},
    {"ffn_gate_inp.bias", "mlp.router.bias", PLAIN},
};

static const struct row gemma_rows[] = {
    {"ffn_norm.weight", "pre_feedforward_layernorm.weight", PLAIN},
};

static const struct row end_rows[] = {
    {"token_embd.weight", "embed_tokens.weight", PLAIN},
    {"output_norm.weight", "norm.weight", PLAIN},
    {"output.weight", "lm_head.weight", PLAIN},
};

static const struct row *find_row(const struct row *rows, size_t n,
                                  const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

#define FIND(rows, name) find_row(rows, sizeof(rows) / sizeof(rows)[0], name)

static const struct row *find_in_layer(const struct gguf_arch *a,
                                       const char *name)
{
    const struct row *r = FIND(shared_rows, name);

    if (r != NULL) {
        return r;
    }
    return a->family == GGUF_GPT_OSS  ? FIND(gpt_oss_rows, name)
           : a->family == GGUF_GEMMA3 ? FIND(gemma_rows, name)
                                      : FIND(qwen_rows, name);
}

/* Reads "blk.N.".  Returns what follows, or NULL. */
static const char *after_layer(const char *name, unsigned long *layer)
{
    char *end;

    if (strncmp(name, "blk.", 4) != 0 || name[4] < '0' || name[4] > '9') {
        return NULL;
    }
    *layer = strtoul(name + 4, &end, 10);
    return *end == '.' ? end + 1 : NULL;
}

/* ---- one tensor ---- */

struct naming {
    struct gguf_tensors *out;
    const struct gguf_arch *arch;
    char *at; /* free room for names */
};

static const char *keep(struct naming *m, const char *text)
{
    char *at = m->at;
    size_t n = strlen(text) + 1;

    memcpy(at, text, n);
    m->at += n;
    return at;
}

static enum safetensors_dtype dtype_of(enum gguf_tensor_type t)
{
    switch (t) {
    case GGUF_F32:
        return SAFETENSORS_F32;
    case GGUF_F16:
        return SAFETENSORS_F16;
    case GGUF_BF16:
        return SAFETENSORS_BF16;
    default:
        return SAFETENSORS_BLOCKS;
    }
}

/* Appends a tensor with its own shape.  dims are reversed: a row comes last. */
static struct safetensors_tensor *
append(struct naming *m, const struct gguf_tensor *t, const char *key)
{
    struct safetensors_tensor *info = &m->out->infos[m->out->n];
    struct gguf_named *named = &m->out->named[m->out->n++];

    *info = (struct safetensors_tensor){.name = keep(m, t->name),
                                        .dtype = dtype_of(t->type),
                                        .rank = t->rank,
                                        .begin = t->offset,
                                        .end = t->offset + t->bytes};
    for (uint32_t i = 0; i < t->rank; i++) {
        info->dims[i] = t->dims[t->rank - 1 - i];
    }
    *named = (struct gguf_named){
        .key = key == NULL ? NULL : keep(m, key),
        .has_form = info->dtype == SAFETENSORS_BLOCKS,
        .form = {.type = t->type},
    };
    return info;
}

/* llama.cpp drops and adds dimensions of 1. */
static void set_shape(struct safetensors_tensor *info, enum change change)
{
    uint64_t *d = info->dims;

    if (change == CONV && info->rank == 2) {
        d[2] = d[1];
        d[1] = 1;
        info->rank = 3;
    } else if (change == GATE && info->rank == 1) {
        d[1] = d[0];
        d[0] = 1;
        info->rank = 2;
    }
}

static bool is_tiled(const struct gguf_arch *a)
{
    return (a->family == GGUF_QWEN3_5 || a->family == GGUF_QWEN3_5_MOE) &&
           a->v_heads > a->k_heads;
}

static void set_form(struct gguf_named *n, const struct gguf_arch *a,
                     enum change change)
{
    struct gguf_form *f = &n->form;
    bool tiled = is_tiled(a);

    f->heads = a->k_heads;
    f->per = a->k_heads > 0 ? a->v_heads / a->k_heads : 0;
    f->dim = change == HEADS || change == A_LOG ? 1 : a->v_dim;
    f->minus_log = change == A_LOG;
    switch (change) {
    case ROTARY:
        f->order = a->family == GGUF_LLAMA ? GGUF_ROTARY_ROWS : GGUF_AS_STORED;
        f->dim = a->head_dim;
        break;
    case QKV:
    case CONV:
        f->first = 2 * a->k_heads * a->k_dim;
        f->order = tiled ? GGUF_TILED_ROWS : GGUF_AS_STORED;
        break;
    case HEADS_ROWS:
    case HEADS:
    case A_LOG:
        f->order = tiled ? GGUF_TILED_ROWS : GGUF_AS_STORED;
        break;
    case COLUMNS:
        f->order = tiled ? GGUF_TILED_COLS : GGUF_AS_STORED;
        break;
    case GROUPS:
        f->order = GGUF_GROUPS_FIRST;
        break;
    default:
        break;
    }
    n->has_form = n->has_form || f->order != GGUF_AS_STORED || f->minus_log ||
                  change == EXPERTS;
}

/* b and a of qwen3next are one tensor, which gets two keys. */
static void split_groups(struct naming *m, const struct gguf_tensor *t,
                         unsigned long layer)
{
    char key[KEY_BYTES];

    snprintf(key, sizeof key, "layers.%lu.linear_attn.in_proj_a.weight", layer);
    append(m, t, key)->dims[0] /= 2;
    set_form(&m->out->named[m->out->n - 1], m->arch, GROUPS);
    m->out->named[m->out->n - 1].form.order = GGUF_GROUPS_SECOND;
    m->out->infos[m->out->n - 2].dims[0] /= 2;
}

static void name_tensor(struct naming *m, const struct gguf_tensor *t)
{
    unsigned long layer = 0;
    const char *name = after_layer(t->name, &layer);
    const struct row *r =
        name != NULL ? find_in_layer(m->arch, name) : FIND(end_rows, t->name);
    char key[KEY_BYTES];

    if (name != NULL && layer >= m->arch->n_layers) {
        append(m, t, NULL);
        return;
    }
    if (r == NULL) {
        /* An unknown tensor is its own key, which the layout counts. */
        bool aside = strcmp(t->name, "rope_freqs.weight") == 0;

        append(m, t, aside ? NULL : t->name);
        return;
    }
    if (name != NULL) {
        snprintf(key, sizeof key, "layers.%lu.%s", layer, r->key);
    } else {
        snprintf(key, sizeof key, "%s", r->key);
    }
    set_shape(append(m, t, key), r->change);
    set_form(&m->out->named[m->out->n - 1], m->arch, r->change);
    if (r->change == GROUPS) {
        split_groups(m, t, layer);
    }
}

enum status gguf_tensors_make(struct gguf_tensors *t, const struct gguf *g,
                              const struct gguf_arch *a, struct error *e)
{
    struct naming m = {.out = t, .arch = a};
    size_t n = 2 * (size_t)g->n_tensors + 1;

    memset(t, 0, sizeof *t);
    t->infos = calloc(n, sizeof *t->infos);
    t->named = calloc(n, sizeof *t->named);
    t->names = malloc(n * (GGUF_NAME_MAX + 1) * 2);
    if (t->infos == NULL || t->named == NULL || t->names == NULL) {
        gguf_tensors_fini(t);
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "no memory for the names of %u tensors", g->n_tensors);
    }
    m.at = t->names;
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        name_tensor(&m, &g->tensors[i]);
    }
    return ST_OK;
}

void gguf_tensors_fini(struct gguf_tensors *t)
{
    free(t->infos);
    free(t->named);
    free(t->names);
    memset(t, 0, sizeof *t);
}
