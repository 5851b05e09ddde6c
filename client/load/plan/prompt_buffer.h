/* prompt_buffer.h - The buffers of a prompt, as it grows.
 *
 * Threading: none.  Memory: aborts if there is none. */
#ifndef CLIENT_LOAD_PLAN_PROMPT_BUFFER_H
#define CLIENT_LOAD_PLAN_PROMPT_BUFFER_H

#include "client/load/plan/prompt.h"

/* Return the place of n more bytes or ids, which the caller fills and
 * counts. */
char *prompt_buffer_text(struct prompt *p, size_t n);
uint32_t *prompt_buffer_ids(struct prompt *p, size_t n);

/* Append. */
void prompt_buffer_add_text(struct prompt *p, const char *text, size_t n);
void prompt_buffer_add_ids(struct prompt *p, const uint32_t *ids, size_t n);

/* Appends a message that begins at the end of the text. */
void prompt_buffer_add_message(struct prompt *p, const char *role);

/* Clears the prompt, but keeps its buffers. */
void prompt_buffer_clear(struct prompt *p);

#endif
