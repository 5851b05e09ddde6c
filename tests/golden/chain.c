#include "tests/golden/chain.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

static void die(const char *what)
{
    fprintf(stderr, "chain: %s\n", what);
    abort();
}

void chain_open(struct chain *c, const struct shard_weights *const *shards,
                uint32_t n, const struct kernels_options *o, uint32_t n_blocks,
                uint32_t n_slots, uint32_t order)
{
    struct error e;

    c->n = n;
    for (uint32_t i = 0; i < n; i++) {
        runner_open(&c->runners[i], shards[i], o, n_blocks, n_slots, order + i);
        runner_poison(&c->runners[i]);
        if (engine_thread_new(&c->engines[i], c->runners[i].forward, 1, &e) !=
            ST_OK) {
            die(e.text);
        }
    }
}

void chain_close(struct chain *c)
{
    for (uint32_t i = 0; i < c->n; i++) {
        engine_thread_free(&c->engines[i]);
        runner_close(&c->runners[i]);
    }
}

void chain_start(struct chain *c, struct chain_seq *s, const uint32_t *ids,
                 uint32_t n_prompt, uint32_t more)
{
    for (uint32_t i = 0; i < c->n; i++) {
        runner_start(&c->runners[i], &s->of[i], ids, n_prompt, more);
    }
}

void chain_stop(struct chain *c, struct chain_seq *s)
{
    for (uint32_t i = 0; i < c->n; i++) {
        runner_stop(&c->runners[i], &s->of[i]);
    }
}

uint32_t chain_add(struct chain *c, struct chain_seq *s, uint32_t n,
                   bool sample, float *logits)
{
    uint32_t row = 0;

    for (uint32_t i = 0; i < c->n; i++) {
        row = runner_add(&c->runners[i], &s->of[i], n, sample,
                         i + 1 == c->n ? logits : NULL);
    }
    return row;
}

void chain_take_slot(struct chain *c, struct chain_state *out)
{
    for (uint32_t i = 0; i < c->n; i++) {
        out->page[i] = runner_take_slot(&c->runners[i]);
    }
}

void chain_give_slot(struct chain *c, const struct chain_state *s)
{
    for (uint32_t i = 0; i < c->n; i++) {
        runner_give_slot(&c->runners[i], s->page[i]);
    }
}

void chain_save(struct chain *c, uint32_t position,
                const struct chain_state *to)
{
    for (uint32_t i = 0; i < c->n; i++) {
        runner_save(&c->runners[i], position, to->page[i]);
    }
}

void chain_fork(struct chain *c, struct chain_seq *s,
                const struct chain_seq *of, uint32_t at,
                const struct chain_state *from)
{
    for (uint32_t i = 0; i < c->n; i++) {
        runner_fork(&c->runners[i], &s->of[i], &of->of[i], at, from->page[i]);
    }
}

uint32_t chain_twin(struct chain *c, struct chain_seq *s,
                    const struct chain_seq *of, uint32_t row, float *logits)
{
    uint32_t twin = 0;

    for (uint32_t i = 0; i < c->n; i++) {
        twin = runner_twin(&c->runners[i], &s->of[i], &of->of[i], row,
                           i + 1 == c->n ? logits : NULL);
    }
    return twin;
}

uint32_t chain_verify(struct chain *c, struct chain_seq *s,
                      const uint32_t *drafts, uint32_t n, float *logits)
{
    uint32_t row = 0;

    for (uint32_t i = 0; i < c->n; i++) {
        row = runner_verify(&c->runners[i], &s->of[i], drafts, n,
                            i + 1 == c->n ? logits : NULL);
    }
    return row;
}

uint32_t chain_accept(struct chain *c, struct chain_seq *s, uint32_t row)
{
    const struct plan_result *last = &c->runners[c->n - 1].result;

    for (uint32_t i = 0; i + 1 < c->n; i++) {
        runner_replay(&c->runners[i], row, last->n_accepted[row]);
        run_seq_accept(&s->of[i], last->n_accepted[row], last->tokens[row]);
    }
    return runner_accept(&c->runners[c->n - 1], &s->of[c->n - 1], row);
}

static void wait_result(struct engine_thread *t, struct plan_result *out)
{
    struct pollfd p = {.fd = engine_thread_fd(t), .events = POLLIN};

    while (!engine_poll(engine_thread_engine(t), out)) {
        (void)poll(&p, 1, -1);
        engine_thread_quiet(t);
    }
}

/* Only the last stage has tokens; only the others have hidden states. */
static void check_result(const struct plan_result *r, bool last)
{
    if ((r->hidden == NULL) != last) {
        die("hidden states where none belong, or none where they do");
    }
    for (uint32_t i = 0; i < r->n_rows; i++) {
        if (!last && r->tokens[i] != TOKEN_NONE) {
            die("a stage before the last one chose a token");
        }
    }
}

void chain_step(struct chain *c)
{
    const float *hidden = NULL;

    for (uint32_t i = 0; i < c->n; i++) {
        struct runner *r = &c->runners[i];

        r->plan.hidden = hidden;
        if (engine_submit(engine_thread_engine(c->engines[i]), &r->plan) !=
            ST_OK) {
            die("an engine refused a plan");
        }
        wait_result(c->engines[i], &r->result);
        runner_done(r);
        check_result(&r->result, i + 1 == c->n);
        hidden = r->result.hidden;
    }
}

uint32_t chain_token(const struct chain *c, uint32_t row)
{
    return runner_token(&c->runners[c->n - 1], row);
}

void chain_push(struct chain *c, struct chain_seq *s, uint32_t id)
{
    for (uint32_t i = 0; i < c->n; i++) {
        run_seq_push(&s->of[i], id);
    }
}
