#include "text/vocab.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "text/byte_fallback.h"
#include "text/byte_level.h"
#include "text/text_limits.h"

static enum status no_memory(struct error *e)
{
    return error_set(e, ST_RESOURCE_EXHAUSTED, "out of memory");
}

enum status vocab_init(struct vocab *v, size_t n, uint64_t seed,
                       struct error *e)
{
    size_t size = 4;

    *v = (struct vocab){.seed = seed, .room = n};
    /* At most half of the slots are used, so a probe ends soon. */
    while (size < 2 * n) {
        size *= 2;
    }
    v->slots = calloc(size, sizeof *v->slots);
    v->mask = size - 1;
    return v->slots == NULL ? no_memory(e) : ST_OK;
}

void vocab_fini(struct vocab *v)
{
    free(v->entries);
    free(v->arena);
    free(v->slots);
    *v = (struct vocab){0};
}

/* Returns the slot that holds the spelling, or the free slot where it would
 * go. */
/* The seed keeps the author of a file from choosing collisions. */
static uint32_t *slot_of(const struct vocab *v, const char *s, size_t n)
{
    size_t i = (size_t)XXH3_64bits_withSeed(s, n, v->seed) & v->mask;

    while (v->slots[i] != 0) {
        const struct vocab_entry *t = &v->entries[v->slots[i] - 1];
        if (t->spelling_len == n && memcmp(v->arena + t->spelling, s, n) == 0) {
            break;
        }
        i = (i + 1) & v->mask;
    }
    return &v->slots[i];
}

/* Rejects a byte token that is not two hex digits.  llama.cpp once read
 * "<0x-1>" and wrote in front of a buffer. */
static bool broken_byte_token(const char *s, size_t n)
{
    if (n < 4 || n > 8 || memcmp(s, "<0x", 3) != 0 || s[n - 1] != '>') {
        return false;
    }
    return n != 6 || !isxdigit((unsigned char)s[3]) ||
           !isxdigit((unsigned char)s[4]);
}

static enum status check(const struct vocab *v, const char *s, size_t n,
                         int64_t id, struct error *e)
{
    if (n == 0) {
        return error_set(e, ST_INVALID_ARGUMENT, "the token is empty");
    }
    if (n > TEXT_TOKEN_BYTES) {
        return error_set(e, ST_OUT_OF_RANGE,
                         "the token is %zu bytes long, at most %d are allowed",
                         n, TEXT_TOKEN_BYTES);
    }
    if (id < 0 || id >= MODEL_VOCAB_MAX) {
        return error_set(e, ST_OUT_OF_RANGE, "id %lld is not in 0..%d",
                         (long long)id, MODEL_VOCAB_MAX - 1);
    }
    if (broken_byte_token(s, n)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "a byte token has two hex digits");
    }
    if (vocab_flags(v, (uint32_t)id) != 0) {
        return error_set(e, ST_INVALID_ARGUMENT, "id %lld is taken",
                         (long long)id);
    }
    if (*slot_of(v, s, n) != 0) {
        return error_set(e, ST_INVALID_ARGUMENT, "the token is there twice");
    }
    return ST_OK;
}

/* Ids may have gaps, so the table grows to the highest id. */
static bool reach(struct vocab *v, uint32_t id)
{
    uint32_t cap = v->cap_ids < 256 ? 256 : v->cap_ids;
    struct vocab_entry *grown;

    if (id >= v->cap_ids) {
        while (cap <= id) {
            cap *= 2;
        }
        grown = realloc(v->entries, cap * sizeof *grown);
        if (grown == NULL) {
            return false;
        }
        memset(grown + v->cap_ids, 0, (cap - v->cap_ids) * sizeof *grown);
        v->entries = grown;
        v->cap_ids = cap;
    }
    if (id >= v->n_ids) {
        v->n_ids = id + 1;
    }
    return true;
}

/* Offsets, not pointers, are stored: the arena moves when it grows. */
static bool arena_room(struct vocab *v, size_t n)
{
    size_t cap = v->arena_cap < 4096 ? 4096 : v->arena_cap;
    char *grown;

    if (v->arena_cap - v->arena_len >= n) {
        return true;
    }
    while (cap - v->arena_len < n) {
        cap *= 2;
    }
    grown = realloc(v->arena, cap);
    if (grown == NULL) {
        return false;
    }
    v->arena = grown;
    v->arena_cap = cap;
    return true;
}

/* Writes spelling and bytes one after the other into the arena. */
static void store(struct vocab *v, struct vocab_entry *t, const char *s,
                  size_t n)
{
    uint8_t *bytes;
    size_t len;

    t->spelling = (uint32_t)v->arena_len;
    t->spelling_len = (uint32_t)n;
    memcpy(v->arena + v->arena_len, s, n);
    t->bytes = (uint32_t)(v->arena_len + n);
    bytes = (uint8_t *)v->arena + t->bytes;
    if (v->fallback) {
        len = byte_fallback_read(s, n, bytes);
    } else if (!byte_level_read(s, n, bytes, &len)) {
        memcpy(bytes, s, n);
        len = n;
    }
    t->bytes_len = (uint32_t)len;
    v->arena_len += n + len;
    len = v->fallback ? n : len;
    if (len > v->longest) {
        v->longest = (uint32_t)len;
    }
}

enum status vocab_add(struct vocab *v, const char *s, size_t n, int64_t id,
                      unsigned flags, struct error *e)
{
    enum status st = check(v, s, n, id, e);
    uint32_t at = (uint32_t)id;

    if (st != ST_OK) {
        return st;
    }
    assert(v->room > 0);
    if (!reach(v, at) || !arena_room(v, 2 * n)) {
        return no_memory(e);
    }
    store(v, &v->entries[at], s, n);
    v->entries[at].flags = (uint8_t)(VOCAB_USED | flags);
    *slot_of(v, s, n) = at + 1;
    v->room--;
    return ST_OK;
}

bool vocab_find(const struct vocab *v, const char *s, size_t n, uint32_t *id)
{
    uint32_t slot = *slot_of(v, s, n);

    *id = slot - 1;
    return slot != 0;
}

unsigned vocab_flags(const struct vocab *v, uint32_t id)
{
    return id < v->n_ids ? v->entries[id].flags : 0;
}

const char *vocab_spelling(const struct vocab *v, uint32_t id, size_t *len)
{
    if (vocab_flags(v, id) == 0) {
        return NULL;
    }
    *len = v->entries[id].spelling_len;
    return v->arena + v->entries[id].spelling;
}

const char *vocab_bytes(const struct vocab *v, uint32_t id, size_t *len)
{
    if (vocab_flags(v, id) == 0) {
        return NULL;
    }
    *len = v->entries[id].bytes_len;
    return v->arena + v->entries[id].bytes;
}
