/* resume.h - Resuming: a Generate whose client already has part of the output.
 *
 * The client's session ended, by the death of the router or of a connection.
 * The client repeats the call and lists what it has of each choice:
 *
 *     have_count [n]  have_tokens [sum]  have_text [n]  have_ended [n]
 *
 *     tokens   t t t t t | t t t ...      t: generated, for penalties, lengths,
 *              has       | sent             stops and the index of sampling
 *     text     ------------|-----...      made anew from the first token; the
 *              not sent    | sent         first have_text bytes are not sent
 *
 * The border of the text differs from that of the tokens: bytes that were held
 * back, of an incomplete character or for a stop string, are sent now.  The
 * last token of the client may be the one that ended the choice, which is no
 * text.  Only the next row from the worker shows that, so this token is scanned
 * for stop strings and converted together with that row.
 *
 * A choice goes through the queue like a new one.  Its Submit is that of a
 * choice that has moved, with the client's tokens as generated ones.  A choice
 * that has ended is neither sent nor submitted.
 *
 * Threading: the core's thread only.  Memory: the tokens belong to the choice.
 * Limits: the method's size cap, max_tokens. */
#ifndef ROUTER_REQUESTS_RESUME_H
#define ROUTER_REQUESTS_RESUME_H

#include "proto/inference.pb-c.h"
#include "router/requests/request.h"

/* Returns true if m lists what its client has. */
static inline bool resume_asked(const Sluice__V1__GenerateRequest *m)
{
    return m->n_have_count > 0 || m->n_have_tokens > 0 || m->n_have_text > 0 ||
           m->n_have_ended > 0;
}

/* Checks what m lists: complete columns, every id below vocab, and no choice
 * longer than max_tokens, if m sets that.  Returns ST_INVALID_ARGUMENT if
 * not. */
MUST_CHECK enum status resume_check(const Sluice__V1__GenerateRequest *m,
                                    uint32_t vocab, struct error *e);

/* Checks the same lengths against max_tokens as it is once the prompt is
 * known. */
MUST_CHECK enum status resume_check_length(const struct request *request,
                                           struct error *e);

/* Sets e to the error with which the old call of a resumed request ends. */
void resume_superseded(struct error *e);

/* Ends the old request of an id for its successor: a call of it in another
 * session ends, kept choices are removed.  Returns true if the id is free now.
 * Returns false if it is not: the caller should retry after *retry_ms; 0: a
 * retry will not help, because the call is open in session p itself. */
bool resume_make_way(struct requests *r, struct request *old,
                     const struct router_peer *p, uint32_t *retry_ms);

/* Takes over what m lists of the choices of request.  Returns false if all of
 * them have ended, or there is no memory: the call has ended too, and request
 * may be gone. */
bool resume_take(struct requests *r, struct request *request,
                 const Sluice__V1__GenerateRequest *m);

/* Counts request in the metrics if it was resumed.  Call it when the request
 * can no longer be refused. */
void resume_count(struct requests *r, const struct request *request);

#endif
