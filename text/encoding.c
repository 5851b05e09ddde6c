#include "text/encoding.h"

#include <stdlib.h>

#include "text/encoder.h"

struct encoding {
    struct encoder encoder;
    struct id_sink ids;
};

enum status encoding_new(struct encoding **out, const struct tokenizer *t,
                         const struct encoding_input *in, struct error *e)
{
    struct encoding *g = calloc(1, sizeof *g);
    enum status st = ST_OK;

    *out = NULL;
    if (g == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
    }
    g->ids.most = in->max_ids == 0 ? SIZE_MAX : in->max_ids;
    st = encoder_init(&g->encoder, t, e);
    if (st == ST_OK) {
        g->encoder.untrusted = in->untrusted;
        g->encoder.n_untrusted = in->n_spans;
        st = encoder_start(&g->encoder, in->text, in->len, in->flags, &g->ids,
                           e);
    }
    encoder_pause(&g->encoder);
    if (st != ST_OK) {
        encoding_free(&g);
    }
    *out = g;
    return st;
}

enum status encoding_step(struct encoding *g, size_t bytes, bool *done,
                          struct error *e)
{
    enum status st = encoder_step(&g->encoder, bytes, done, e);

    encoder_pause(&g->encoder);
    return st;
}

bool encoding_is_over(const struct encoding *g)
{
    return g->ids.over;
}

uint32_t *encoding_take(struct encoding *g, size_t *n)
{
    /* The ids may live long; the array has room for twice as many. */
    uint32_t *ids =
        realloc(g->ids.ids, (g->ids.n > 0 ? g->ids.n : 1) * sizeof *ids);

    ids = ids != NULL ? ids : g->ids.ids;
    *n = g->ids.n;
    g->ids = (struct id_sink){.ids = NULL};
    return ids;
}

void encoding_free(struct encoding **pg)
{
    struct encoding *g = *pg;

    *pg = NULL;
    if (g != NULL) {
        encoder_fini(&g->encoder);
        free(g->ids.ids);
        free(g);
    }
}
