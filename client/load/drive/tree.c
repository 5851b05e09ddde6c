#include "client/load/drive/tree.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/minmax.h"

_Static_assert(PLAN_TURNS_MAX <= 64, "a set of turns is 64 bits");

#define TEXT_PER_TOKEN 4 /* bytes, to estimate a text's tokens */

static void *grown(void *array, size_t n, size_t size)
{
    array = memory_must(realloc(array, n * size));
    return array;
}

static void make_room(struct tree *s, uint32_t n_turns, uint32_t n_pieces)
{
    if (n_turns > s->turns_size) {
        s->turns = grown(s->turns, n_turns, sizeof *s->turns);
        s->turns_size = n_turns;
    }
    if (n_pieces > s->pieces_size) {
        s->pieces = grown(s->pieces, n_pieces, sizeof *s->pieces);
        s->pieces_size = n_pieces;
    }
}

void tree_take(struct tree *s, const struct plan_session *from)
{
    make_room(s, from->n_turns, from->n_pieces);
    s->number = from->number;
    s->content = from->content;
    s->due_us = from->due_us;
    s->think_us = from->think_us;
    s->n_turns = s->n_left = from->n_turns;
    s->n_pieces = from->n_pieces;
    s->n_roots = 0;
    s->begun = false;
    if (from->n_pieces > 0) {
        memcpy(s->pieces, from->pieces, from->n_pieces * sizeof *s->pieces);
    }
    for (uint32_t i = 0; i < from->n_turns; i++) {
        s->turns[i] = from->turns[i];
        s->n_roots += from->turns[i].parent < 0;
    }
    if (from->n_turns > 1) {
        s->answers = memory_must(calloc(from->n_turns, sizeof *s->answers));
    }
}

void tree_give(const struct tree *s, struct plan_session *to)
{
    to->number = s->number;
    to->content = s->content;
    to->due_us = s->due_us;
    to->think_us = s->think_us;
    to->n_turns = s->n_turns;
    to->n_pieces = s->n_pieces;
    memcpy(to->turns, s->turns, s->n_turns * sizeof *s->turns);
    if (s->n_pieces > 0) {
        memcpy(to->pieces, s->pieces, s->n_pieces * sizeof *s->pieces);
    }
}

bool tree_has_children(const struct tree *s, uint32_t turn)
{
    for (uint32_t i = turn + 1; i < s->n_turns; i++) {
        if (s->turns[i].parent == (int32_t)turn) {
            return true;
        }
    }
    return false;
}

uint64_t tree_below(const struct tree *s, uint32_t turn)
{
    uint64_t set = (uint64_t)1 << turn;

    /* Parents come first, so one pass finds all. */
    for (uint32_t i = turn + 1; i < s->n_turns; i++) {
        int32_t parent = s->turns[i].parent;

        if (parent >= 0 && (set >> parent & 1) != 0) {
            set |= (uint64_t)1 << i;
        }
    }
    return set & ~((uint64_t)1 << turn);
}

static uint64_t turn_tokens(const struct tree *s, uint32_t i)
{
    const struct plan_entry *entry = s->turns[i].entry;
    uint64_t n = s->turns[i].n_new;

    if (entry != NULL) {
        n +=
            entry->n_ids + (entry->n_text + entry->n_messages) / TEXT_PER_TOKEN;
    }
    return n;
}

uint64_t tree_tokens(const struct tree *s, uint32_t turn)
{
    uint64_t n = turn_tokens(s, turn);

    for (int32_t i = s->turns[turn].parent; i >= 0; i = s->turns[i].parent) {
        const struct prompt_answer *a = &s->answers[i];

        n +=
            turn_tokens(s, (uint32_t)i) + a->n_ids + a->n_text / TEXT_PER_TOKEN;
    }
    return n;
}

/* ---- answers ---- */

/* Returns the size of an array that holds n: a power of two, so that an array
 * needs no field for its size. */
static size_t size_for(size_t n)
{
    size_t size = 64;

    while (size < n) {
        size *= 2;
    }
    return n == 0 ? 0 : size;
}

static void append_ids(struct prompt_answer *a, const uint32_t *ids, size_t n)
{
    n = min_size(n, TREE_ANSWER_MAX - a->n_ids);
    if (n == 0) {
        return;
    }
    if (size_for(a->n_ids + n) != size_for(a->n_ids)) {
        a->ids = grown(a->ids, size_for(a->n_ids + n), sizeof *a->ids);
    }
    memcpy(a->ids + a->n_ids, ids, n * sizeof *ids);
    a->n_ids += n;
}

static void append_text(struct prompt_answer *a, const char *text, size_t n)
{
    n = min_size(n, TREE_ANSWER_MAX - a->n_text);
    if (n == 0) {
        return;
    }
    if (size_for(a->n_text + n) != size_for(a->n_text)) {
        a->text = grown(a->text, size_for(a->n_text + n), 1);
    }
    memcpy(a->text + a->n_text, text, n);
    a->n_text += n;
}

void tree_answer(struct tree *s, uint32_t turn, const uint32_t *ids,
                 size_t n_ids, const char *text, size_t n_text)
{
    struct prompt_answer *a;

    if (s->answers == NULL || !tree_has_children(s, turn)) {
        return;
    }
    a = &s->answers[turn];
    append_ids(a, ids, n_ids);
    if (a->n_ids == 0) {
        append_text(a, text, n_text);
    } else if (a->text != NULL) {
        free(a->text);
        a->text = NULL;
        a->n_text = 0;
    }
}

/* ---- the end ---- */

void tree_clear(struct tree *s)
{
    for (uint32_t i = 0; s->answers != NULL && i < s->n_turns; i++) {
        free(s->answers[i].ids);
        free(s->answers[i].text);
    }
    free(s->answers);
    s->answers = NULL;
    if (s->pieces_size > TREE_PIECES_KEPT) {
        free(s->pieces);
        s->pieces = NULL;
        s->pieces_size = 0;
    }
}

void tree_fini(struct tree *s)
{
    tree_clear(s);
    free(s->turns);
    free(s->pieces);
    *s = (struct tree){0};
}
