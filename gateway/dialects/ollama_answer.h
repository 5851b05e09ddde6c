/* ollama_answer.h - Answers of Ollama's API: lines of JSON, of which the last
 * one has done: true.
 *
 *     {"model":"m","created_at":"..","message":{"role":"assistant",
 *      "content":"a"},"done":false}
 *
 * A call is a line of its own, whole.  A dialect that uses it sets `form` of
 * its row to one of the names below, and the functions.
 *
 * Threading, memory: as answer.h. */
#ifndef GATEWAY_DIALECTS_OLLAMA_ANSWER_H
#define GATEWAY_DIALECTS_OLLAMA_ANSWER_H

#include "gateway/dialects/answer_base.h"

#define OLLAMA_LINES "application/x-ndjson"

/* JSON around the content of a line. */
struct ollama_form {
    const char *open;  /* before the text, with its quote */
    const char *close; /* after text, thinking and calls */
};

/* Appends {"error": ..}. */
void ollama_error(struct json_out *out, const struct openai_error *e);

/* The functions of the row. */
bool ollama_init(struct openai_answer *a);
void ollama_first(struct openai_answer *a);
void ollama_delta(struct openai_answer *a, uint32_t index,
                  const struct output_event *event);
void ollama_flush(struct openai_answer *a, uint32_t index);
void ollama_finish(struct openai_answer *a, uint32_t index);
void ollama_end(struct openai_answer *a);
void ollama_fail(struct openai_answer *a, const struct openai_error *e);
void ollama_drop(struct openai_answer *a);
void ollama_fini(struct openai_answer *a);

#endif
