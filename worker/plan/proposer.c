#include "worker/plan/proposer.h"

#include "worker/plan/ngram.h"

enum proposer proposer_of(const struct proposer_rules *r,
                          const struct sequence *s)
{
    if (s->drafts.most == 0) {
        return PROPOSER_NONE;
    }
    if (r->has_mtp && r->drafter != DRAFTER_NGRAM && !s->drafts.hole) {
        return PROPOSER_MTP;
    }
    return r->drafter != DRAFTER_MTP ? PROPOSER_NGRAM : PROPOSER_NONE;
}

bool proposer_in_engine(enum proposer p)
{
    return p == PROPOSER_MTP;
}

static void search_text(const struct sequence_table *t, struct sequence *s)
{
    uint32_t ids[NGRAM_WINDOW], known = sequence_known(s);
    uint32_t n = known < NGRAM_WINDOW ? known : NGRAM_WINDOW;

    if (s->drafts.searched == known) {
        return;
    }
    paged_read(&t->slab, &s->portable.tokens, known - n, ids, n);
    s->drafts.n = ngram_find(ids, n, s->drafts.ids, s->drafts.most);
    s->drafts.searched = known;
}

uint32_t proposer_find(const struct sequence_table *t, struct sequence *s)
{
    struct sequence_drafts *d = &s->drafts;

    if (d->proposer == PROPOSER_NGRAM) {
        search_text(t, s);
        d->source = PROPOSER_NGRAM;
        return d->n > 0 && s->plan.pending > 0 ? d->n - 1 : d->n;
    }
    return d->n;
}

void proposer_drop(struct sequence *s)
{
    s->drafts.n = s->drafts.searched = 0;
}
