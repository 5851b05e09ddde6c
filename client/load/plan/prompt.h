/* prompt.h - The content of a prompt, from the pieces of a plan.
 *
 * Three makers:
 *
 *   ids        tokens drawn from 0..vocab - 1 without special ones, by the
 *              tokenizer, or else without the ends of the vocabulary
 *   tokenizer  text whose number of tokens is exact, by a tokenizer.json; if
 *              no text has this number, the nearest
 *   words      text of common English words, about one a token: the server's
 *              own count is then the one that is reported
 *
 * Words come from a file if one is given.  Every prompt is a function of its
 * pieces: equal first pieces give equal first bytes, and a child's prompt
 * begins with its parent's.
 *
 * A row of a dataset is sent as it is: its ids as ids, its messages as JSON,
 * its text as text, or as ids if there are a vocabulary and a tokenizer.
 *
 * Counts are of the prompts alone, without what a chat template or a tokenizer
 * adds around them.
 *
 * Threading: a maker belongs to one thread.  Memory: a prompt owns its
 * buffers and is reused. */
#ifndef CLIENT_LOAD_PLAN_PROMPT_H
#define CLIENT_LOAD_PLAN_PROMPT_H

#include "client/load/plan/plan_types.h"
#include "common/base/status.h"

struct prompt_options {
    uint32_t vocab;        /* draw ids below it; 0: make text */
    const char *tokenizer; /* model directory, or NULL */
    const char *text_file; /* NULL: words that are built in */
    bool messages;         /* as a conversation, for chat */
};

struct prompt_maker;

/* Makes a maker.  Returns the errors of plan_new(). */
MUST_CHECK enum status prompt_maker_new(struct prompt_maker **out,
                                        const struct prompt_options *o,
                                        struct error *e);
void prompt_maker_free(struct prompt_maker **m);

/* Returns whether the maker has a tokenizer. */
bool prompt_counts(const struct prompt_maker *m);

/* Returns the tokens of a text by the maker's tokenizer, which it must have. */
uint32_t prompt_count(struct prompt_maker *m, const char *text, size_t n);

/* A server's answer to a turn, for the prompts of its children. */
struct prompt_answer {
    uint32_t *ids; /* [n_ids], empty if the server sends text only */
    char *text;    /* [n_text] */
    size_t n_ids, n_text;
};

struct prompt_message {
    const char *role; /* "user", "assistant", "system" */
    size_t at, n;     /* in prompt.text */
};

/* Either ids, or text; as a conversation, text cut into messages.  A dataset's
 * messages are passed through as JSON. */
struct prompt {
    uint32_t *ids;
    size_t n_ids, ids_size;
    char *text;
    size_t n_text, text_size;
    struct prompt_message *messages;
    size_t n_messages, messages_size;
    const char *json; /* borrowed: the messages of a dataset */
    size_t n_json;
    uint32_t n_tokens; /* planned; exact with ids or a tokenizer */
};

/* Makes the prompt of turn i: the prompts and answers of its ancestors, then
 * its own pieces.  answers [session->n_turns]; only those of ancestors are
 * read.  Buffers of *out are reused. */
void prompt_make(struct prompt_maker *m, const struct plan_session *session,
                 uint32_t i, const struct prompt_answer *answers,
                 struct prompt *out);

void prompt_fini(struct prompt *p);

#endif
