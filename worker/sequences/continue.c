#include "worker/sequences/continue.h"

#include <string.h>

#include "common/base/minmax.h"

#define COMPARE_STEP 256 /* ids compared at once */

/* Returns whether the Submit of s named another sequence. */
static bool continues(const struct sequence *s)
{
    return !request_id_is_zero(s->continuation.from_key.request_id);
}

/* Returns whether m has the tenant and the salt of s. */
static bool same_scope(const struct sequence *s,
                       const Sluice__V1__SubmitRequest *m)
{
    uint8_t scope[PREFIX_SCOPE_MAX];
    size_t n = prefix_scope(scope, m->tenant.data, m->tenant.len,
                            m->cache_salt.data, m->cache_salt.len);

    return s->portable.n_scope == n && memcmp(s->portable.scope, scope, n) == 0;
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
        if (continues(s) &&
            sequence_key_equal(&s->continuation.from_key, from) &&
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

    return s != NULL && s->state == SEQUENCE_KEPT &&
                   s->continuation.heir == NULL && same_scope(s, m)
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
                         "here with this tenant and cache_salt",
                         name);
    }
    if (kept->state != SEQUENCE_KEPT) {
        return refuse_state(kept, name, e);
    }
    if (kept->continuation.heir != NULL) {
        return error_set(e, ST_NOT_FOUND,
                         "another request continues sequence %s already", name);
    }
    if (m->n_prompt < kept_ids(&kept->kept)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "n_prompt is %u, but sequence %s, which continue_from "
                         "names, has %u ids; the prompt begins with all of "
                         "them",
                         m->n_prompt, name, kept_ids(&kept->kept));
    }
    return ST_OK;
}

void continue_open(struct sequences *q, struct sequence *s,
                   const Sluice__V1__SubmitRequest *m)
{
    struct sequence *kept;
    struct error e;

    if (m->continue_from == NULL ||
        !sequence_key_read(&s->continuation.from_key, m->continue_from, &e)) {
        return;
    }
    kept = available(q, &s->continuation.from_key, m);
    if (kept != NULL) { /* else a sibling has it */
        s->continuation.from = kept;
        kept->continuation.heir = s;
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
        k = min_u32(n - at, COMPARE_STEP);
        paged_read(slab, &a->portable.tokens, at, x, k);
        paged_read(slab, &b->portable.tokens, at, y, k);
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
        at = min_u32(end_a, end_b);
    }
    return n;
}

/* Adds a run of a kind to the spans of s; runs of one kind become one. */
static void add_run(struct sequence *s, enum row_kind kind, uint32_t n)
{
    bool last_is_prompt = s->portable.n_spans % 2 == 1;

    if (n == 0) {
        return;
    }
    if (s->portable.n_spans > 0 && last_is_prompt == (kind == ROW_PROMPT)) {
        s->portable.spans[s->portable.n_spans - 1] += n;
        return;
    }
    s->portable.spans[s->portable.n_spans++] = n;
}

/* A Submit without spans has the kinds of the kept sequence, and prompt
 * behind. */
static enum status inherit_spans(struct sequence *s,
                                 const struct sequence *kept, struct error *e)
{
    uint32_t n = kept_ids(&kept->kept), end;

    if (kept->portable.n_spans + 2 > SPANS_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the continued sequence has %u runs of prompt and "
                         "generated ids, at most %d fit; submit the whole "
                         "prompt without continue_from",
                         kept->portable.n_spans, SPANS_MAX - 2);
    }
    for (uint32_t at = 0; at < n; at = end) {
        enum row_kind kind = sequence_kind(kept, at, &end);

        end = min_u32(end, n);
        add_run(s, kind, end - at);
    }
    add_run(s, ROW_PROMPT, s->portable.n_prompt - n);
    return ST_OK;
}

static enum status check_same(const struct sequences *q,
                              const struct sequence *s, struct error *e)
{
    const struct sequence *kept = s->continuation.from;
    uint32_t n = kept_ids(&kept->kept);
    uint32_t at = differs_at(&q->table.slab, kept, s, n);
    char name[SEQUENCE_NAME];

    sequence_name(&kept->key, name);
    if (at < n) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "id %u at position %u differs from id %u of sequence "
                         "%s, which continue_from names",
                         paged_get(&q->table.slab, &s->portable.tokens, at), at,
                         paged_get(&q->table.slab, &kept->portable.tokens, at),
                         name);
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
        continues(s)
            ? find_sibling(q, &s->continuation.from_key, s->key.request_id)
            : NULL;

    if (a != NULL && a != s && s->portable.n_spans == 0 &&
        a->portable.n_prompt == s->portable.n_prompt) {
        s->portable.n_spans = a->portable.n_spans;
        memcpy(s->portable.spans, a->portable.spans,
               a->portable.n_spans * sizeof *s->portable.spans);
    }
}

enum status continue_complete(struct sequences *q, struct sequence *s,
                              struct error *e)
{
    struct sequence *kept = s->continuation.from;

    /* Without one, a sibling has it, or it went while ids were on their way:
     * then s is computed as any other. */
    if (kept == NULL) {
        copy_spans(q, s);
        return ST_OK;
    }
    if (s->portable.n_spans == 0 && inherit_spans(s, kept, e) != ST_OK) {
        return e->code;
    }
    return check_same(q, s, e);
}

/* ---- the end of either ---- */

struct sequence *continue_leave(struct sequences *q, struct sequence *s)
{
    struct sequence *kept = s->continuation.from, *heir = s->continuation.heir;

    if (kept != NULL) {
        s->continuation.from = NULL;
        kept->continuation.heir = NULL;
    }
    if (heir != NULL) {
        s->continuation.heir = NULL;
        heir->continuation.from = NULL;
    }
    /* A Submit that was accepted has ended the kept one for the router. */
    if (kept != NULL && s->state == SEQUENCE_RECEIVING) {
        timer_set(&q->timers, &kept->keep,
                  base_now_us(q->base) +
                      (int64_t)kept->portable.keep_ms * 1000);
        kept = NULL;
    }
    return kept;
}
