/* cpu_identity.c - the made-up mixer on the CPU. */
#include "tests/kernels/identity/cpu_identity.h"

#include "kernels/cpu/mixer.h"

const void *cpu_identity_broken;

static float *state_of(const struct cpu *c, uint32_t layer, uint32_t slot)
{
    return (float *)(void *)cpu_part(c, layer, slot, 0);
}

static void advance(const struct cpu *c, uint32_t layer,
                    const struct kernel_row *row)
{
    float *state = state_of(c, layer, row->slot);

    for (uint32_t i = 0; i < row->n_saves; i++) {
        const struct kernel_save *s = &row->saves[i];

        *state_of(c, layer, s->page) =
            *state + (float)(s->position - row->position);
    }
    if (!row->keep) {
        *state += (float)row->n_tokens;
    }
}

static void run(struct cpu *c, uint32_t layer)
{
    size_t n = (size_t)c->step->n_tokens * c->w->shape.hidden;
    float factor = cpu_identity_broken == c ? 1.25f : 1.0f;

    for (size_t i = 0; i < n; i++) {
        c->x[i] += factor * c->n[i];
    }
    for (uint32_t i = 0; i < c->step->n_rows; i++) {
        advance(c, layer, &c->step->rows[i]);
    }
}

static void replay(struct cpu *c, uint32_t layer, const struct kernel_replay *r)
{
    *state_of(c, layer, r->slot) += (float)r->n_tokens;
}

const struct cpu_mixer cpu_mixer_identity = {
    .run = run,
    .replay = replay,
};
