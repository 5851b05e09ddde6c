/* answer_base.h - State that the writers of all dialects share.
 *
 * answer.c owns the answer and calls the functions of its dialect.
 *
 * Threading, memory: as answer.h. */
#ifndef GATEWAY_DIALECTS_ANSWER_BASE_H
#define GATEWAY_DIALECTS_ANSWER_BASE_H

#include "gateway/dialects/answer.h"

#define ANSWER_ID_BYTES 33 /* a request's id in hex, with its NUL */
#define ANSWER_LOGS     4  /* lists of logprobs of a choice */
#define ANSWER_KEY      32 /* bytes of an id such as call_..., with its NUL */

/* Texts of a choice.  A stream uses text alone, for the run that the next
 * chunk carries; a whole answer keeps all of them. */
struct choice {
    enum output_kind run; /* kind of the pending text, if is_open */
    bool is_open;
    bool in_call;   /* the JSON of the last call is open */
    uint32_t tool;  /* the run's call */
    size_t call_at; /* the last call in calls, and its arguments */
    size_t arguments_at;
    struct json_out text; /* content or pending run, escaped */
    struct json_out reasoning, calls;
    struct json_out logs[ANSWER_LOGS]; /* lists of logprobs, by dialect */
    uint64_t n_chars;                  /* characters before the next token */
    const char *reason;
    const struct openai_stop *stop; /* that ended it; NULL: none did */
};

struct openai_answer {
    struct openai_answer_options o;
    const struct dialect *dialect;
    char id[ANSWER_ID_BYTES];
    bool stream, wants_logprobs;
    struct json_account account; /* shared by all buffers */
    struct json_out out;         /* goes out in the next write */
    struct json_out head;        /* begins each chunk */
    struct openai_usage usage;
    void *own; /* made by init() of the dialect */
    uint32_t n_choices;
    struct choice choices[]; /* [n_choices] */
};

/* Writes to key[ANSWER_KEY] an id that depends on the request and on the place
 * alone, so that a repeated request repeats it: prefix and 24 hex digits. */
void answer_key(const struct openai_answer *a, const char *prefix,
                uint32_t index, uint32_t number, char *key);

/* Appends a string of the JSON text: key, quotes and escapes. */
void answer_member(struct json_out *o, const char *key, const char *value);

/* Appends {"prompt_tokens": ..}. */
void answer_usage(struct json_out *o, const struct openai_usage *u);

/* Append tokens to the lists of logprobs of a choice: objects in logs[0]; or
 * tokens, logprobs, best candidates and offsets. */
void answer_logs_objects(struct openai_answer *a, struct choice *c,
                         const struct openai_logprobs *l);
void answer_logs_columns(struct openai_answer *a, struct choice *c,
                         const struct openai_logprobs *l);

#endif
