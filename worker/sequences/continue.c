#include "worker/sequences/continue.h"

#include <string.h>

#define COMPARE_STEP 256 /* ids compared at once */

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static bool same_key(const struct sequence_key *a, const struct sequence_key *b)
{
    return a->choice == b->choice &&
           memcmp(a->request_id, b->request_id, sizeof a->request_id) == 0;
}

/* Returns whether m has the tenant and the salt of s. */
static bool same_scope(const struct sequence *s,
                       const Sluice__V1__SubmitRequest *m)
{
    uint8_t scope[PREFIX_SCOPE_MAX];
    size_t n = prefix_scope(scope, m->tenant.data, m->tenant.len,
                            m->cache_salt.data, m->cache_salt.len);

    return s->n_scope == n && memcmp(s->scope, scope, n) == 0;
}

/* ---- Submit ---- */

/* Returns another choice of the same request that continues, or has continued,
 * the same sequence; NULL: none.  Choices share what it took over as twins. */
static const struct sequence *find_sibling(const struct sequences *q,
                                           const struct sequence_key *from,
                                           const uint8_t *request_id)
{
    for (const struct sequence *s = q->table.all.head; s != NULL;
         s = sequence_next(s, LIST_ALL)) {
        if (s->continues && same_key(&s->from_key, from) &&
            memcmp(s->key.request_id, request_id, sizeof s->key.request_id) ==
                0) {
            return s;
        }
    }
    return NULL;
}

/* Returns the kept sequence that m may take over, NULL if there is none. */
static struct sequence *available(const struct sequences *q,
                                  const struct sequence_key *key,
                                  const Sluice__V1__SubmitRequest *m)
{
    struct sequence *s = sequence_by_key(&q->table, key);

    return s != NULL && s->state == SEQUENCE_KEPT && s->heir == NULL &&
                   same_scope(s, m)
               ? s
               : NULL;
}

static enum status refuse_state(const struct sequence *kept, const char *name,
                                struct error *e)
{
    switch (kept->state) {
    case SEQUENCE_RELEASING:
    case SEQUENCE_FINISHED:
        return error_set(e, ST_NOT_FOUND,
                         "sequence %s, which continue_from names, has ended "
                         "and is not kept",
                         name);
    default:
        return error_set(e, ST_FAILED_PRECONDITION,
                         "sequence %s, which continue_from names, is %s: "
                         "continue it after its end, which keep_ms awaits",
                         name, sequence_state_name(kept->state));
    }
}

enum status continue_check(const struct sequences *q,
                           const Sluice__V1__SubmitRequest *m, struct error *e)
{
    struct sequence_key key;
    const struct sequence *kept;
    char name[SEQUENCE_NAME];

    if (m->continue_from == NULL) {
        return ST_OK;
    }
    if (!sequence_key_read(&key, m->continue_from, e)) {
        return error_wrap(e, "continue_from");
    }
    sequence_name(&key, name);
    if (available(q, &key, m) == NULL &&
        find_sibling(q, &key, m->sequence->request_id.data) != NULL) {
        return ST_OK;
    }
    kept = sequence_by_key(&q->table, &key);
    /* A tenant learns nothing about the sequences of another. */
    if (kept == NULL || !same_scope(kept, m)) {
        return error_set(e, ST_NOT_FOUND,
                         "sequence %s, which continue_from names, is not kept "
                         "here",
                         name);
    }
    if (kept->state != SEQUENCE_KEPT) {
        return refuse_state(kept, name, e);
    }
    if (kept->heir != NULL) {
        return error_set(e, ST_NOT_FOUND,
                         "another request continues sequence %s already", name);
    }
    if (m->n_prompt < kept->n_kept) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "n_prompt is %u, but sequence %s, which continue_from "
                         "names, has %u ids; the prompt begins with all of "
                         "them",
                         m->n_prompt, name, kept->n_kept);
    }
    return ST_OK;
}

void continue_open(struct sequences *q, struct sequence *s,
                   const Sluice__V1__SubmitRequest *m)
{
    struct sequence *kept;
    struct error e;

    if (m->continue_from == NULL ||
        !sequence_key_read(&s->from_key, m->continue_from, &e)) {
        return;
    }
    s->continues = true;
    kept = available(q, &s->from_key, m);
    if (kept != NULL) { /* else a sibling has it */
        s->from = kept;
        kept->heir = s;
        timer_clear(&q->timers, &kept->keep);
    }
}

/* ---- ids and kinds ---- */

/* Returns the first position below n at which the ids differ; n: none. */
static uint32_t differs_at(const struct slab *slab, const struct sequence *a,
                           const struct sequence *b, uint32_t n)
{
    uint32_t x[COMPARE_STEP], y[COMPARE_STEP];

    for (uint32_t at = 0, k; at < n; at += k) {
        k = least(n - at, COMPARE_STEP);
        paged_read(slab, &a->tokens, at, x, k);
        paged_read(slab, &b->tokens, at, y, k);
        for (uint32_t i = 0; i < k; i++) {
            if (x[i] != y[i]) {
                return at + i;
            }
        }
    }
    return n;
}

/* Returns the first position below n that is prompt in one and generated in the
 * other; n: none. */
static uint32_t kinds_differ_at(const struct sequence *a,
                                const struct sequence *b, uint32_t n)
{
    for (uint32_t at = 0; at < n;) {
        uint32_t end_a, end_b;

        if (sequence_kind(a, at, &end_a) != sequence_kind(b, at, &end_b)) {
            return at;
        }
        at = least(end_a, end_b);
    }
    return n;
}

/* Adds a run of a kind to the spans of s; runs of one kind become one. */
static void add_run(struct sequence *s, enum row_kind kind, uint32_t n)
{
    bool last_is_prompt = s->n_spans % 2 == 1;

    if (n == 0) {
        return;
    }
    if (s->n_spans > 0 && last_is_prompt == (kind == ROW_PROMPT)) {
        s->spans[s->n_spans - 1] += n;
        return;
    }
    s->spans[s->n_spans++] = n;
}

/* A Submit without spans has the kinds of the kept sequence, and prompt
 * behind. */
static enum status inherit_spans(struct sequence *s,
                                 const struct sequence *kept, struct error *e)
{
    uint32_t n = kept->n_kept, end;

    if (kept->n_spans + 2 > SPANS_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the continued sequence has %u runs of prompt and "
                         "generated ids, at most %d fit; submit the whole "
                         "prompt without continue_from",
                         kept->n_spans, SPANS_MAX - 2);
    }
    for (uint32_t at = 0; at < n; at = end) {
        enum row_kind kind = sequence_kind(kept, at, &end);

        end = least(end, n);
        add_run(s, kind, end - at);
    }
    add_run(s, ROW_PROMPT, s->n_prompt - n);
    return ST_OK;
}

static enum status check_same(const struct sequences *q,
                              const struct sequence *s, struct error *e)
{
    const struct sequence *kept = s->from;
    uint32_t n = kept->n_kept;
    uint32_t at = differs_at(&q->table.slab, kept, s, n);
    char name[SEQUENCE_NAME];

    sequence_name(&kept->key, name);
    if (at < n) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "id %u at position %u differs from id %u of sequence "
                         "%s, which continue_from names",
                         paged_get(&q->table.slab, &s->tokens, at), at,
                         paged_get(&q->table.slab, &kept->tokens, at), name);
    }
    at = kinds_differ_at(kept, s, n);
    if (at < n) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "spans give position %u another kind than sequence "
                         "%s, which continue_from names",
                         at, name);
    }
    return ST_OK;
}

/* Gives a choice that continues nothing itself the kinds of its sibling. */
static void copy_spans(const struct sequences *q, struct sequence *s)
{
    const struct sequence *a =
        s->continues ? find_sibling(q, &s->from_key, s->key.request_id) : NULL;

    if (a != NULL && a != s && s->n_spans == 0 && a->n_prompt == s->n_prompt) {
        s->n_spans = a->n_spans;
        memcpy(s->spans, a->spans, a->n_spans * sizeof *s->spans);
    }
}

enum status continue_complete(struct sequences *q, struct sequence *s,
                              struct error *e)
{
    struct sequence *kept = s->from;

    /* Without one, a sibling has it, or it went while ids were on their way:
     * then s is computed as any other. */
    if (kept == NULL) {
        copy_spans(q, s);
        return ST_OK;
    }
    if (s->n_spans == 0 && inherit_spans(s, kept, e) != ST_OK) {
        return e->code;
    }
    return check_same(q, s, e);
}

/* ---- the end of either ---- */

struct sequence *continue_leave(struct sequences *q, struct sequence *s)
{
    struct sequence *kept = s->from, *heir = s->heir;

    if (kept != NULL) {
        s->from = NULL;
        kept->heir = NULL;
    }
    if (heir != NULL) {
        s->heir = NULL;
        heir->from = NULL;
    }
    /* A Submit that was accepted has ended the kept one for the router. */
    if (kept != NULL && s->state == SEQUENCE_RECEIVING) {
        timer_set(&q->timers, &kept->keep,
                  base_now_us(q->base) + (int64_t)kept->keep_ms * 1000);
        kept = NULL;
    }
    return kept;
}
