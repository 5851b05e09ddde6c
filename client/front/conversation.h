/* conversation.h - The messages of a chat, and the request for a reply.
 *
 * Messages alternate: user, assistant, user, ...  A user message without a
 * reply is replaced by the next one, because many chat templates refuse two of
 * one role in a row.
 *
 * Threading: none.  Memory: on the heap; aborts without memory.  Pure.
 * Limits: CONVERSATION_BYTES_MAX. */
#ifndef CLIENT_FRONT_CONVERSATION_H
#define CLIENT_FRONT_CONVERSATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#define CONVERSATION_BYTES_MAX (4u << 20) /* all texts together */

struct conversation;

struct conversation_settings {
    const char *model;
    bool has_temperature, has_max_tokens;
    double temperature;
    uint32_t max_tokens;
    bool no_think;
    bool has_drafts;
    uint32_t drafts; /* in a step, at most DRAFTS_MAX */
};

struct conversation *conversation_new(void);
void conversation_free(struct conversation **c);

/* Sets the system message; NULL or "" removes it.  Errors: as
 * conversation_ask(). */
MUST_CHECK enum status conversation_set_system(struct conversation *c,
                                               const char *text,
                                               struct error *e);

/* Adds a user message.  Returns ST_INVALID_ARGUMENT if text is not UTF-8, and
 * ST_RESOURCE_EXHAUSTED past CONVERSATION_BYTES_MAX. */
MUST_CHECK enum status conversation_ask(struct conversation *c,
                                        const char *text, size_t n,
                                        struct error *e);

/* Adds the reply, also a partial one.  Ignored if it is empty, and if there is
 * no question. */
void conversation_answer(struct conversation *c, const char *text, size_t n);

/* Removes the last reply.  Returns false if there is no question. */
bool conversation_retry(struct conversation *c);

/* Removes all messages except the system message. */
void conversation_reset(struct conversation *c);

/* Returns the JSON body of a streamed request, for free(). */
char *conversation_request(const struct conversation *c,
                           const struct conversation_settings *settings);

/* Returns the messages as indented JSON with a newline, for free(). */
char *conversation_text(const struct conversation *c);

#endif
