/* choices.h - Answers as a list of choices, in chunks that end with [DONE]:
 * the writer of /v1/chat/completions and of /v1/completions.
 *
 * A dialect that uses it sets `form` of its row, and the functions below.
 *
 * Threading, memory: as answer.h. */
#ifndef GATEWAY_DIALECTS_CHOICES_H
#define GATEWAY_DIALECTS_CHOICES_H

#include "gateway/dialects/answer_base.h"

struct choices_form {
    const char *id_prefix;
    const char *whole, *chunk; /* the names of the two objects */
    const char *role; /* content of the first chunk of a choice; NULL: none */
    /* JSON around the content of a chunk. */
    const char *delta_open, *delta_close;
    bool last_text; /* the last chunk of a choice has text, if only "" */
    /* JSON before each list of logprobs, and after the last. */
    const char *logs[ANSWER_LOGS], *logs_end;
    /* Appends the pending run of a choice to a chunk. */
    void (*put_run)(struct json_out *o, const struct choice *c);
    /* Appends the text, reasoning and calls of a choice to a whole answer. */
    void (*put_whole)(struct json_out *o, const struct choice *c);
};

/* Appends the text of a choice, in quotes. */
void choices_put_text(struct json_out *o, const struct choice *c);

/* The functions of the row. */
bool choices_init(struct openai_answer *a);
void choices_first(struct openai_answer *a);
void choices_delta(struct openai_answer *a, uint32_t index,
                   const struct output_event *event);
void choices_flush(struct openai_answer *a, uint32_t index);
void choices_finish(struct openai_answer *a, uint32_t index);
void choices_end(struct openai_answer *a);
void choices_fail(struct openai_answer *a, const struct openai_error *e);
void choices_drop(struct openai_answer *a);
void choices_fini(struct openai_answer *a);

#endif
