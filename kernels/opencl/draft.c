#include "kernels/opencl/draft.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/opencl/host/launch.h"
#include "kernels/opencl/host/memory.h"
#include "kernels/opencl/operators.h"
#include "kernels/opencl/rows.h"

#define WG 256

struct opencl_draft {
    struct opencl_kernel *input;
    struct opencl_tensor in; /* [T, 2*H] operand dtype: fc's */
    /* [T, H] f32: x after the last layer of an earlier step */
    struct opencl_tensor hidden;
    const struct opencl_tensor *norm; /* behind that layer */
    uint32_t *place; /* [max_tokens] of that step's tokens in hidden */
    bool keeps;      /* this step's x becomes hidden */
};

static const struct opencl_variant input[] = {
    {.file = "draft", .kernel = "draft_input", .wg = WG},
};

enum status opencl_draft_setup(struct opencl *c, struct error *e)
{
    struct opencl_draft *d = calloc(1, sizeof *d);
    const size_t h = c->w->shape.hidden, n = c->sizes.max_tokens;
    const float scale = c->w->shape.stream.embed;
    char of_w[OPENCL_MATRIX_DEFINES], defines[sizeof of_w + 64];

    opencl_operators(c)->draft = d;
    if (d && c->w->mtp != NULL) {
        d->place = calloc(n, sizeof *d->place);
    }
    if (!d || (c->w->mtp != NULL && !d->place)) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "not enough memory for kernels");
    }
    if (c->w->mtp == NULL) {
        return ST_OK;
    }
    opencl_scratch(c, OPENCL_KEEP, &d->hidden, n, h, sizeof(float));
    opencl_scratch(c, OPENCL_IN_MLP, &d->in, n, 2 * h,
                   dtype_bytes(opencl_operators(c)->matmul->operand));
    opencl_matrix_defines(c, &c->model.embed, of_w, sizeof of_w);
    (void)snprintf(defines, sizeof defines, "%s -DEMBED_SCALE=%.9ef", of_w,
                   scale > 0.0f ? (double)scale : 1.0);
    return opencl_choose(c, &d->input, input, 1, NULL, defines, e);
}

void opencl_draft_free(struct opencl *c)
{
    if (opencl_operators(c)->draft) {
        free(opencl_operators(c)->draft->place);
        free(opencl_operators(c)->draft);
        opencl_operators(c)->draft = NULL;
    }
}

void opencl_draft_begin(struct opencl *c)
{
    struct opencl_draft *d = opencl_operators(c)->draft;

    if (d->keeps) {
        const struct opencl_tensor x = c->x;

        c->x = d->hidden;
        d->hidden = x;
        d->norm = opencl_operators(c)->rows->last;
        memcpy(d->place, c->step.places, c->step.n_tokens * sizeof *d->place);
    }
    d->keeps = false;
    opencl_operators(c)->rows->last = &c->model.final_norm;
}

void opencl_keep_hidden(struct kernels *k)
{
    struct opencl *c = opencl_of(k);

    assert(c->w->mtp != NULL);
    opencl_operators(c)->draft->keeps = true;
}

/* Writes fc's operand, and zeroes x. */
static void run_input(struct opencl *c)
{
    const struct opencl_draft *d = opencl_operators(c)->draft;
    const uint32_t n = c->step.n_tokens;
    struct opencl_call a = opencl_call(c, d->input);
    const size_t local[2] = {WG, 1};
    const size_t global[2] = {2 * local[0], n};

    opencl_arg_tensor(&a, &d->in);
    opencl_arg_tensor(&a, &c->x);
    opencl_arg_tensor(&a, &d->hidden);
    opencl_arg_tensor(&a, &c->model.embed);
    opencl_arg_tensor(&a, &c->model.mtp.embed_norm);
    opencl_arg_tensor(&a, d->norm);
    opencl_arg_tensor(&a, &c->model.mtp.hidden_norm);
    opencl_arg_meta(&a);
    opencl_arg_u32(&a, c->meta.from);
    opencl_launch(&a, 2, global, local,
                  (uint64_t)n * c->w->shape.hidden * sizeof(float) * 4);
}

void opencl_draft_input(struct kernels *k, const uint32_t *tokens,
                        const uint32_t *from)
{
    struct opencl *c = opencl_of(k);
    struct opencl_draft *d = opencl_operators(c)->draft;
    const struct opencl_tensor absent = {0};
    const uint32_t layer = c->w->end - c->w->begin;

    assert(c->w->mtp != NULL && d->norm != NULL);
    opencl_operators(c)->rows->last = &c->model.mtp.norm;
    for (uint32_t t = 0; t < c->step.n_tokens; t++) {
        const uint32_t place = c->step.place[t];

        /* No upload of their own: the launch below uploads the step's meta. */
        c->meta.host[c->meta.ids + place] = (int32_t)tokens[t];
        c->meta.host[c->meta.from + place] = (int32_t)d->place[from[t]];
    }
    run_input(c);
    opencl_rows_add(c, &d->in, &c->model.mtp.fc, &absent, &absent,
                    &c->model.layers[layer].input_norm);
    opencl_operator_end(c);
}
