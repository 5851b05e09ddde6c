#include "text/spm_merges.h"

#include <stdlib.h>

#include "text/text_limits.h"

struct list {
    struct spm_merge *merges;
    size_t n, cap;
};

static int by_size(uint32_t a, uint32_t b)
{
    return a < b ? -1 : a > b;
}

static int by_rank(const void *a, const void *b)
{
    const struct spm_merge *x = a, *y = b;
    int order = x->score > y->score ? -1 : x->score < y->score;

    order = order != 0 ? order : by_size(y->left_chars, x->left_chars);
    order = order != 0 ? order : by_size(y->right_chars, x->right_chars);
    order = order != 0 ? order : by_size(x->id, y->id);
    order = order != 0 ? order : by_size(x->left, y->left);
    return order != 0 ? order : by_size(x->right, y->right);
}

static enum status push(struct list *l, const struct spm_merge *m,
                        struct error *e)
{
    if (l->n == TEXT_MERGES) {
        return error_set(e, ST_OUT_OF_RANGE,
                         "more than %d merges follow from the scores",
                         TEXT_MERGES);
    }
    if (l->n == l->cap) {
        size_t cap = l->cap * 2 + 1024;
        struct spm_merge *grown = realloc(l->merges, cap * sizeof *grown);

        if (grown == NULL) {
            return error_set(e, ST_RESOURCE_EXHAUSTED,
                             "no memory for %zu merges", cap);
        }
        l->merges = grown;
        l->cap = cap;
    }
    l->merges[l->n++] = *m;
    return ST_OK;
}

static uint32_t count_chars(const char *s, size_t n)
{
    uint32_t chars = 0;

    for (size_t i = 0; i < n; i++) {
        chars += ((uint8_t)s[i] & 0xC0) != 0x80;
    }
    return chars;
}

static enum status cut(struct list *l, const struct vocab *v, uint32_t id,
                       double score, struct error *e)
{
    struct spm_merge m = {.id = id, .score = score};
    enum status st = ST_OK;
    size_t n;
    const char *s = vocab_spelling(v, id, &n);
    uint32_t chars = count_chars(s, n);

    for (size_t i = 1; st == ST_OK && i < n; i++) {
        if (((uint8_t)s[i] & 0xC0) == 0x80) {
            continue;
        }
        m.left_chars++;
        m.right_chars = chars - m.left_chars;
        if (vocab_find(v, s, i, &m.left) &&
            vocab_find(v, s + i, n - i, &m.right)) {
            st = push(l, &m, e);
        }
    }
    return st;
}

enum status spm_merges(struct spm_merge **out, size_t *n, const struct vocab *v,
                       const double *scores, struct error *e)
{
    struct list l = {0};
    enum status st = ST_OK;

    *out = NULL;
    *n = 0;
    for (uint32_t id = 0; st == ST_OK && id < v->n_ids; id++) {
        if (vocab_flags(v, id) != 0) {
            st = cut(&l, v, id, scores[id], e);
        }
    }
    if (st != ST_OK) {
        free(l.merges);
        return st;
    }
    if (l.n > 0) {
        qsort(l.merges, l.n, sizeof *l.merges, by_rank);
    }
    *out = l.merges;
    *n = l.n;
    return ST_OK;
}
