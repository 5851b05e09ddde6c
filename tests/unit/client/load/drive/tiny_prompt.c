/* Prompts of no bytes, in place of client/load/plan/prompt.h. */
#include "client/load/plan/prompt.h"

struct prompt_maker {
    int none;
};

enum status prompt_maker_new(struct prompt_maker **out,
                             const struct prompt_options *o, struct error *e)
{
    (void)o;
    (void)e;
    *out = NULL;
    return ST_OK;
}

bool prompt_counts(const struct prompt_maker *m)
{
    (void)m;
    return false;
}

uint32_t prompt_count(struct prompt_maker *m, const char *text, size_t n)
{
    (void)m;
    (void)text;
    return (uint32_t)n;
}

void prompt_make(struct prompt_maker *m, const struct plan_session *session,
                 uint32_t i, const struct prompt_answer *answers,
                 struct prompt *out)
{
    (void)m;
    out->n_tokens = session->turns[i].n_new;
    for (int32_t a = session->turns[i].parent; a >= 0;
         a = session->turns[a].parent) {
        out->n_tokens += session->turns[a].n_new + (uint32_t)answers[a].n_ids;
    }
}

void prompt_fini(struct prompt *p)
{
    (void)p;
}
