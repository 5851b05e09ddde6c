#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/router/rig.h"
#include "text/detokenizer.h"

static struct fake_text *fake(struct text_seam *s)
{
    return (struct fake_text *)(void *)s;
}

static enum status submit(struct text_seam *s, struct text_job **j)
{
    struct fake_text *t = fake(s);

    if (t->full || t->n_jobs == RIG_JOBS) {
        return ST_RESOURCE_EXHAUSTED;
    }
    t->jobs[t->n_jobs++] = *j;
    *j = NULL;
    return ST_OK;
}

static void encode(const struct fake_text *t, struct text_job *j)
{
    if (t->tokenizer != NULL) {
        while (!text_job_step(j, t->tokenizer, 16)) {
        }
        return;
    }
    j->ids = calloc(j->n_text + 1, sizeof *j->ids);
    for (size_t i = 0; i < j->n_text; i++) {
        j->ids[i] = (uint8_t)j->text[i];
    }
    j->n_ids = j->n_text;
}

static void decode(const struct fake_text *t, struct text_job *j)
{
    struct detokenizer d;
    size_t max = t->tokenizer == NULL ? 1 : detokenizer_max(t->tokenizer);

    j->text = calloc(j->n_ids + 1, max);
    if (t->tokenizer == NULL) {
        for (size_t i = 0; i < j->n_ids; i++) {
            j->text[i] = (char)j->ids[i];
        }
        j->n_text = j->n_ids;
        return;
    }
    detokenizer_init(&d, t->tokenizer, DETOK_SKIP_SPECIAL);
    for (size_t i = 0; i < j->n_ids; i++) {
        j->n_text += detokenizer_push(&d, j->ids[i], j->text + j->n_text);
    }
    j->n_text += detokenizer_finish(&d, j->text + j->n_text);
}

static struct text_job *poll_job(struct text_seam *s)
{
    struct fake_text *t = fake(s);
    struct text_job *j;

    if (t->hold || t->n_jobs == 0) {
        return NULL;
    }
    j = t->jobs[--t->n_jobs]; /* jobs finish in any order: newest first */
    if (t->fail) {
        j->status =
            error_set(&j->error, ST_OUT_OF_RANGE, "too many regex steps");
    } else if (j->kind == TEXT_ENCODE) {
        encode(t, j);
    } else {
        decode(t, j);
    }
    return j;
}

static bool find(struct text_seam *s, const char *name, size_t n,
                 uint32_t *model)
{
    *model = 5;
    return !fake(s)->no_model && n == 4 && memcmp(name, "tiny", 4) == 0;
}

static const struct tokenizer *tokenizer(struct text_seam *s, uint32_t model)
{
    assert_int_equal(model, 5);
    return fake(s)->tokenizer;
}

static const uint8_t *hash(struct text_seam *s, uint32_t model)
{
    assert_int_equal(model, 5);
    return fake(s)->hash;
}

static const struct text_seam_ops ops = {submit, poll_job, find, tokenizer,
                                         hash};

void fake_text_init(struct fake_text *t, const struct tokenizer *tok)
{
    *t = (struct fake_text){.seam = {&ops}, .tokenizer = tok};
}

void fake_text_fini(struct fake_text *t)
{
    while (t->n_jobs > 0) {
        text_job_free(&t->jobs[--t->n_jobs]);
    }
}
