#include "tests/unit/worker/sequences/chat.h"

#include <string.h>

#include "tests/unit/cmocka.h"

void chat_defaults(struct worker_options *o)
{
    rig_defaults(o);
    o->pool.n_pages = 512;
    o->reuse = true;
}

uint32_t chat_turn(struct chat *c, uint32_t n, uint32_t m, bool from)
{
    struct rig_submit s = {.id = c->id + 1,
                           .max_tokens = m,
                           .keep_ms = 5000,
                           .prompt = c->ids,
                           .spans = c->spans,
                           .from = from ? c->id : 0};
    struct rig_prompt p = {.ids = c->ids, .spans = c->spans};
    uint32_t before = c->r->n_computed;
    uint64_t tag;

    for (uint32_t i = 0; i < n; i++) {
        c->ids[c->n++] = rig_prompt_id(c->id + 70, i);
    }
    if (c->n_spans % 2 == 1) { /* it was cut within a prompt run */
        c->spans[c->n_spans - 1] += n;
    } else {
        c->spans[c->n_spans++] = n;
    }
    s.n_prompt = p.n = c->n;
    s.n_spans = p.n_spans = c->n_spans;
    tag = rig_submit(c->r, &s);
    rig_turn(c->r);
    rig_check_ok(c->r, tag);
    rig_run(c->r);
    rig_expect_prompt(c->r, &p, m, &c->ids[c->n]);
    assert_int_equal(c->r->heard[c->r->grant].n, m);
    assert_memory_equal(c->r->heard[c->r->grant].tokens, &c->ids[c->n],
                        m * sizeof *c->ids);
    c->n += m;
    c->spans[c->n_spans++] = m;
    c->id++;
    return c->r->n_computed - before;
}
