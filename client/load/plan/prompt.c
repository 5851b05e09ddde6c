#include "client/load/plan/prompt.h"

#include <stdlib.h>
#include <string.h>

#include "client/load/plan/draw.h"
#include "client/load/plan/prompt_buffer.h"
#include "client/load/plan/words.h"
#include "common/base/memory.h"
#include "common/base/quote.h"
#include "text/assets.h"

/* Vocabularies keep special ids at their ends: these are not drawn. */
#define SPECIAL_FIRST 256
#define SPECIAL_LAST  1024
#define SPECIAL_SHARE 8 /* at most an eighth of a small vocabulary */

#define FIT_ROUNDS \
    8 /* to find a number of tokens that words do not add up to */

struct prompt_maker {
    struct prompt_options options;
    struct text_assets *assets;
    struct words words;
    uint32_t first_id, n_ids; /* drawn ids, unless allowed is there */
    uint32_t *allowed;        /* [n_ids], or NULL */
};

/* ---- makers ---- */

/* Without a tokenizer special ids are unknown. */
static void guess_ids(struct prompt_maker *m)
{
    uint32_t vocab = m->options.vocab, share = vocab / SPECIAL_SHARE;
    uint32_t last = share < SPECIAL_LAST ? share : SPECIAL_LAST;

    m->first_id = share < SPECIAL_FIRST ? share : SPECIAL_FIRST;
    m->n_ids = vocab - m->first_id - last;
}

static enum status list_ids(struct prompt_maker *m, const struct tokenizer *t,
                            struct error *e)
{
    uint32_t vocab = m->options.vocab;
    size_t n;

    m->allowed = memory_must(malloc(vocab * sizeof *m->allowed));
    for (uint32_t id = 0; id < vocab; id++) {
        if (tokenizer_token(t, id, &n) != NULL &&
            !tokenizer_is_special(t, id)) {
            m->allowed[m->n_ids++] = id;
        }
    }
    return m->n_ids > 0
               ? ST_OK
               : error_set(e, ST_INVALID_ARGUMENT,
                           "--vocab %u: the tokenizer has no token below it",
                           vocab);
}

static enum status load_tokenizer(struct prompt_maker *m,
                                  const struct tokenizer **t, struct error *e)
{
    const char *dir = m->options.tokenizer;
    enum status st;

    *t = NULL;
    if (dir == NULL) {
        return ST_OK;
    }
    st = text_assets_load(&m->assets, dir, e);
    if (st != ST_OK) {
        return error_wrap(e, "tokenizer %s", quote(dir).text);
    }
    *t = text_assets_tokenizer(m->assets);
    return *t != NULL
               ? ST_OK
               : error_set(e, ST_INVALID_ARGUMENT,
                           "tokenizer %s: no tokenizer.json", quote(dir).text);
}

enum status prompt_maker_new(struct prompt_maker **out,
                             const struct prompt_options *o, struct error *e)
{
    struct prompt_maker *m = memory_must(calloc(1, sizeof *m));
    const struct tokenizer *t;
    enum status st;

    m->options = *o;
    st = load_tokenizer(m, &t, e);
    if (st == ST_OK) {
        st = words_init(&m->words, t, o->text_file, e);
    }
    if (st == ST_OK && o->vocab > 0 && t != NULL) {
        st = list_ids(m, t, e);
    } else if (st == ST_OK && o->vocab > 0) {
        guess_ids(m);
    }
    if (st != ST_OK) {
        prompt_maker_free(&m);
    }
    *out = m;
    return st;
}

void prompt_maker_free(struct prompt_maker **m)
{
    if (*m == NULL) {
        return;
    }
    words_fini(&(*m)->words);
    text_assets_free(&(*m)->assets);
    free((*m)->allowed);
    free(*m);
    *m = NULL;
}

/* ---- ids ---- */

static uint32_t id_of(const struct prompt_maker *m, uint64_t random)
{
    uint32_t i = (uint32_t)((random & UINT32_MAX) * m->n_ids >> 32);

    return m->allowed != NULL ? m->allowed[i] : m->first_id + i;
}

static void add_drawn_ids(const struct prompt_maker *m,
                          const struct plan_piece *piece, struct prompt *out)
{
    uint32_t *ids = prompt_buffer_ids(out, piece->n);
    struct draw d;

    draw_seed(&d, piece->seed);
    for (uint32_t i = 0; i < piece->n; i += 2) {
        uint64_t random = draw_u64(&d);

        ids[i] = id_of(m, random);
        if (i + 1 < piece->n) {
            ids[i + 1] = id_of(m, random >> 32);
        }
    }
    out->n_ids += piece->n;
}

static void add_encoded(struct prompt_maker *m, const char *text, size_t n,
                        struct prompt *out)
{
    const uint32_t *ids;
    size_t n_ids;

    if (words_encode(&m->words, text, n, &ids, &n_ids)) {
        prompt_buffer_add_ids(out, ids, n_ids);
    }
}

static void add_turn_ids(struct prompt_maker *m,
                         const struct plan_session *session,
                         const struct plan_turn *turn, struct prompt *out)
{
    const struct plan_entry *entry = turn->entry;

    if (entry != NULL && entry->ids != NULL) {
        prompt_buffer_add_ids(out, entry->ids, entry->n_ids);
    } else if (entry != NULL) {
        add_encoded(m, entry->text, entry->n_text, out);
    }
    for (uint32_t i = 0; i < turn->n_pieces; i++) {
        add_drawn_ids(m, &session->pieces[turn->first_piece + i], out);
    }
}

static void add_answer_ids(struct prompt_maker *m,
                           const struct prompt_answer *a, struct prompt *out)
{
    if (a->n_ids > 0) {
        prompt_buffer_add_ids(out, a->ids, a->n_ids);
    } else {
        add_encoded(m, a->text, a->n_text, out);
    }
}

/* ---- text ---- */

static void begin_message(const struct prompt_maker *m, const char *role,
                          struct prompt *out)
{
    if (m->options.messages) {
        prompt_buffer_add_message(out, role);
    }
}

static void end_message(const struct prompt_maker *m, struct prompt *out)
{
    if (m->options.messages) {
        struct prompt_message *last = &out->messages[out->n_messages - 1];

        last->n = out->n_text - last->at;
    }
}

static void write_pieces(struct prompt_maker *m, const struct plan_piece *piece,
                         uint32_t n, int64_t change, struct prompt *out)
{
    size_t at = m->options.messages ? out->n_text : 0;

    for (uint32_t i = 0; i < n; i++) {
        int64_t tokens = piece[i].n + (i + 1 == n ? change : 0);

        if (tokens > 0) {
            words_write(&m->words, piece[i].seed, (uint32_t)tokens,
                        out->n_text == at, out);
        }
    }
}

/* Appends pieces.  If costs do not add up, corrects the last piece until the
 * tokenizer counts what is planned, or as near as it gets: a function of these
 * pieces alone, so that a child's prompt begins with its parent's. */
static void add_pieces(struct prompt_maker *m, const struct plan_piece *piece,
                       uint32_t n, struct prompt *out)
{
    size_t from = out->n_text;
    int64_t want = 0, change = 0, best = 0, best_off = INT64_MAX, got, off;

    for (uint32_t i = 0; i < n; i++) {
        want += piece[i].n;
    }
    for (int round = 0; round < FIT_ROUNDS && !m->words.adds_up; round++) {
        write_pieces(m, piece, n, change, out);
        got = (int64_t)words_count(&m->words, out->text + from,
                                   out->n_text - from);
        out->n_text = from;
        off = got > want ? got - want : want - got;
        if (off < best_off) {
            best = change;
            best_off = off;
        }
        if (off == 0) {
            break;
        }
        change += want - got;
    }
    write_pieces(m, piece, n, best, out);
}

static void add_drawn_text(struct prompt_maker *m,
                           const struct plan_session *session,
                           const struct plan_turn *turn, struct prompt *out)
{
    const struct plan_piece *piece = &session->pieces[turn->first_piece];
    uint32_t n_system = m->options.messages ? turn->n_system : 0;

    if (n_system > 0) {
        begin_message(m, "system", out);
        add_pieces(m, piece, n_system, out);
        end_message(m, out);
    }
    begin_message(m, "user", out);
    add_pieces(m, piece + n_system, turn->n_pieces - n_system, out);
    end_message(m, out);
}

static void add_turn_text(struct prompt_maker *m,
                          const struct plan_session *session,
                          const struct plan_turn *turn, struct prompt *out)
{
    const struct plan_entry *entry = turn->entry;

    if (entry == NULL) {
        add_drawn_text(m, session, turn, out);
        return;
    }
    if (!m->options.messages && out->n_text > 0) {
        prompt_buffer_add_text(out, "\n", 1);
    }
    begin_message(m, "user", out);
    prompt_buffer_add_text(out, entry->text, entry->n_text);
    end_message(m, out);
}

static void add_answer_text(const struct prompt_maker *m,
                            const struct prompt_answer *a, struct prompt *out)
{
    begin_message(m, "assistant", out);
    prompt_buffer_add_text(out, a->text, a->n_text);
    end_message(m, out);
}

/* ---- prompts ---- */

/* Returns whether the prompts of a session are ids: what a dataset's row is
 * decides before the options. */
static bool as_ids(const struct prompt_maker *m,
                   const struct plan_session *session)
{
    const struct plan_entry *entry = session->turns[0].entry;

    if (entry == NULL) {
        return m->options.vocab > 0;
    }
    return entry->ids != NULL ||
           (entry->text != NULL && m->options.vocab > 0 && m->assets != NULL);
}

/* Fills the turns from the root to i.  Returns their number. */
static uint32_t path_to(const struct plan_session *session, uint32_t i,
                        uint32_t path[PLAN_TURNS_MAX])
{
    uint32_t n = 0;

    for (int32_t at = (int32_t)i; at >= 0; at = session->turns[at].parent) {
        n++;
    }
    for (uint32_t k = n, at = i; k > 0; k--) {
        path[k - 1] = at;
        at = (uint32_t)session->turns[at].parent;
    }
    return n;
}

bool prompt_counts(const struct prompt_maker *m)
{
    return m->words.tokenizer != NULL;
}

uint32_t prompt_count(struct prompt_maker *m, const char *text, size_t n)
{
    return (uint32_t)words_count(&m->words, text, n);
}

/* Counts a text.  Words without an answer between them need no tokenizer. */
static uint32_t text_tokens(struct prompt_maker *m, uint32_t planned,
                            bool is_drawn, const struct prompt *p)
{
    size_t n = 0;

    if (is_drawn && m->words.adds_up &&
        (m->words.tokenizer == NULL || m->words.all_one)) {
        return planned;
    }
    if (p->n_messages == 0) {
        return (uint32_t)words_count(&m->words, p->text, p->n_text);
    }
    for (size_t i = 0; i < p->n_messages; i++) {
        n += words_count(&m->words, p->text + p->messages[i].at,
                         p->messages[i].n);
    }
    return (uint32_t)n;
}

static void make_text(struct prompt_maker *m,
                      const struct plan_session *session, const uint32_t *path,
                      uint32_t n, const struct prompt_answer *answers,
                      struct prompt *out)
{
    uint32_t planned = 0;

    for (uint32_t k = 0; k < n; k++) {
        const struct plan_turn *turn = &session->turns[path[k]];

        add_turn_text(m, session, turn, out);
        planned += turn->n_new;
        if (k + 1 < n) {
            add_answer_text(m, &answers[path[k]], out);
        }
    }
    out->n_tokens = text_tokens(
        m, planned, n == 1 && session->turns[path[0]].entry == NULL, out);
}

static void make_ids(struct prompt_maker *m, const struct plan_session *session,
                     const uint32_t *path, uint32_t n,
                     const struct prompt_answer *answers, struct prompt *out)
{
    for (uint32_t k = 0; k < n; k++) {
        add_turn_ids(m, session, &session->turns[path[k]], out);
        if (k + 1 < n) {
            add_answer_ids(m, &answers[path[k]], out);
        }
    }
    out->n_tokens = (uint32_t)out->n_ids;
}

void prompt_make(struct prompt_maker *m, const struct plan_session *session,
                 uint32_t i, const struct prompt_answer *answers,
                 struct prompt *out)
{
    const struct plan_entry *entry = session->turns[i].entry;
    uint32_t path[PLAN_TURNS_MAX];
    uint32_t n = path_to(session, i, path);

    prompt_buffer_clear(out);
    if (entry != NULL && entry->messages != NULL) {
        out->json = entry->messages;
        out->n_json = entry->n_messages;
        out->n_tokens = (uint32_t)words_count(&m->words, entry->messages,
                                              entry->n_messages);
    } else if (as_ids(m, session)) {
        make_ids(m, session, path, n, answers, out);
    } else {
        make_text(m, session, path, n, answers, out);
    }
}
