/* answer_base.h - State that the writers of all answers share.
 *
 * answer.c owns the answer and calls the writer of its kind: choices.c for
 * completions and chats, responses.c for /v1/responses.
 *
 * Threading, memory: as answer.h. */
#ifndef GATEWAY_OPENAI_ANSWER_BASE_H
#define GATEWAY_OPENAI_ANSWER_BASE_H

#include "gateway/openai/answer.h"

#define ANSWER_ID_BYTES 33 /* a request's id in hex, with its NUL */
#define ANSWER_KEY      32 /* bytes of an id such as call_..., with its NUL */

/* Texts of a choice.  A stream uses text alone, for the run that the next
 * chunk carries; a whole answer keeps all of them. */
struct choice {
    enum output_kind run; /* kind of the pending text, if is_open */
    bool is_open;
    bool in_call;         /* the JSON of the last call is open */
    uint32_t tool;        /* the run's call */
    struct json_out text; /* content or pending run, escaped */
    struct json_out reasoning, calls;
    /* Lists of logprobs.  Chat: objects in logs[0].  Completion: tokens,
     * logprobs, best candidates, offsets. */
    struct json_out logs[4];
    uint64_t n_chars; /* characters before the next token */
    const char *reason;
};

struct openai_answer {
    struct openai_answer_options o;
    const struct answer_ops *ops;
    char id[ANSWER_ID_BYTES];
    bool stream, wants_logprobs;
    struct json_out out;  /* goes out in the next write */
    struct json_out head; /* begins each chunk */
    struct openai_usage usage;
    struct responses *responses; /* NULL for other kinds */
    uint32_t n_choices;
    struct choice choices[]; /* [n_choices] */
};

struct answer_ops {
    void (*init)(struct openai_answer *a);
    void (*begin)(struct openai_answer *a);
    void (*output)(struct openai_answer *a, uint32_t index,
                   const struct output_event *event);
    void (*flush)(struct openai_answer *a, uint32_t index);
    void (*finish)(struct openai_answer *a, uint32_t index);
    void (*end)(struct openai_answer *a);
    void (*fail)(struct openai_answer *a, const struct openai_error *e);
    void (*fini)(struct openai_answer *a);
};

extern const struct answer_ops choices_ops, responses_ops;

/* Writes to key[ANSWER_KEY] an id that depends on the request and on the place
 * alone, so that a repeated request repeats it: prefix and 24 hex digits. */
void answer_key(const struct openai_answer *a, const char *prefix,
                uint32_t index, uint32_t number, char *key);

/* Appends a string of the JSON text: key, quotes and escapes. */
void answer_member(struct json_out *o, const char *key, const char *value);

/* Appends {"prompt_tokens": ..}. */
void answer_usage(struct json_out *o, const struct openai_usage *u);

/* Appends tokens to the lists of logprobs of a choice. */
void answer_logs_chat(struct openai_answer *a, struct choice *c,
                      const struct openai_logprobs *l);
void answer_logs_completion(struct openai_answer *a, struct choice *c,
                            const struct openai_logprobs *l);

#endif
