#include "client/load/drive/outputs.h"

#include <assert.h>
#include <stdlib.h>

#include "common/base/memory.h"
#include "common/base/splitmix.h"

struct output {
    uint64_t content, hash;
    uint32_t turn, n_tokens;
    bool used, unstable;
};

struct outputs {
    struct output *entries; /* [size], a power of two, by linear probing */
    uint32_t size, n, max;
};

struct outputs *outputs_new(uint32_t max)
{
    struct outputs *o = memory_must(calloc(1, sizeof *o));

    assert(max > 0 && max <= OUTPUTS_MAX);
    o->max = max;
    o->size = 4;
    while (o->size < max + max / 2) {
        o->size *= 2;
    }
    o->entries = memory_must(calloc(o->size, sizeof *o->entries));
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

/* Returns the entry of a sample, or the free entry where it would be: there
 * always is one, as the table never fills up. */
static struct output *find(const struct outputs *o, const struct sample *s)
{
    uint64_t at = splitmix(s->content + splitmix(s->turn + UINT64_C(1)));
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
    } else if (!is_equal(x, s)) {
        x->unstable = true;
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
