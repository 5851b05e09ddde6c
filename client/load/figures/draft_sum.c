#include "client/load/figures/draft_sum.h"

void draft_sum_read(struct draft_sum *s, const struct draft_counts *now)
{
    bool fell = now->rows < s->last.rows || now->verified < s->last.verified ||
                now->accepted < s->last.accepted;

    if (s->begun && !fell) {
        s->sum.rows += now->rows - s->last.rows;
        s->sum.verified += now->verified - s->last.verified;
        s->sum.accepted += now->accepted - s->last.accepted;
    } else if (s->begun) {
        s->sum.rows += now->rows;
        s->sum.verified += now->verified;
        s->sum.accepted += now->accepted;
    }
    s->begun = true;
    s->last = *now;
}

double draft_tokens(const struct draft_counts *c)
{
    return c->rows > 0 ? 1 + (double)c->accepted / (double)c->rows : 0;
}
