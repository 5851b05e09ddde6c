#include "client/load/drive/outputs.h"

#include <assert.h>
#include <stdlib.h>

struct output {
    uint64_t content, hash;
    uint32_t turn, n_tokens;
    bool used, unstable;
};

struct outputs {
    struct output *entries; /* [size], a power of two, by linear probing */
    uint32_t size, n, max, n_unstable;
};

struct outputs *outputs_new(uint32_t max)
{
    struct outputs *o = calloc(1, sizeof *o);

    assert(o != NULL && max > 0 && max <= OUTPUTS_MAX);
    o->max = max;
    o->size = 4;
    while (o->size < max + max / 2) {
        o->size *= 2;
    }
    o->entries = calloc(o->size, sizeof *o->entries);
    assert(o->entries != NULL);
    return o;
}

void outputs_free(struct outputs **po)
{
    struct outputs *o = *po;

    *po = NULL;
    if (o != NULL) {
        free(o->entries);
        free(o);
    }
}

/* splitmix64's finaliser: contents are small numbers. */
static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Returns the entry of a sample, or the free entry where it would be: there
 * always is one, as the table never fills up. */
static struct output *find(const struct outputs *o, const struct sample *s)
{
    uint64_t at = mix(s->content + mix(s->turn + UINT64_C(1)));
    struct output *x = &o->entries[at & (o->size - 1)];

    while (x->used && (x->content != s->content || x->turn != s->turn)) {
        x = &o->entries[++at & (o->size - 1)];
    }
    return x;
}

static bool is_equal(const struct output *x, const struct sample *s)
{
    return x->hash == s->output_hash && x->n_tokens == s->n_output;
}

bool outputs_learn(struct outputs *o, const struct sample *s)
{
    struct output *x = find(o, s);

    if (s->outcome != OUTCOME_OK || (!x->used && o->n == o->max)) {
        return false;
    }
    if (!x->used) {
        *x = (struct output){.content = s->content,
                             .hash = s->output_hash,
                             .turn = s->turn,
                             .n_tokens = s->n_output,
                             .used = true};
        o->n++;
    } else if (!is_equal(x, s) && !x->unstable) {
        x->unstable = true;
        o->n_unstable++;
    }
    return true;
}

enum outputs_verdict outputs_compare(const struct outputs *o,
                                     const struct sample *s)
{
    const struct output *x = find(o, s);

    if (s->outcome != OUTCOME_OK || x->unstable) {
        return OUTPUTS_NOT_COMPARABLE;
    }
    if (!x->used) {
        return OUTPUTS_UNKNOWN;
    }
    return is_equal(x, s) ? OUTPUTS_EQUAL : OUTPUTS_DIFFERS;
}

uint32_t outputs_count(const struct outputs *o, uint32_t *n_unstable)
{
    *n_unstable = o->n_unstable;
    return o->n;
}
