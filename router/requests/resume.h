/* resume.h - a Generate whose client has some of it already.
 *
 * Its session ended, by the death of the router or of a connection, and it
 * asks again with what it has of each choice:
 *
 *     have_count [n]  have_tokens [sum]  have_text [n]  have_ended [n]
 *
 *     tokens   t t t t t | t t t ...      t: generated, for penalties, lengths,
 *              had       | sent             stops and the index of sampling
 *     text     ------------|-----...      made anew from the first token; the
 *              not sent    | sent         first have_text bytes are not sent
 *
 * The text's border is not that of the tokens: what was held back of a
 * character, or for a stop string, is sent now.  The last token that its
 * client came with may be the one that ended the choice, which is no text;
 * only what the worker says next tells, so it is looked at, and made text of,
 * together with what comes then.
 *
 * A choice goes through the queue like a new one and is submitted like one
 * that has moved, with its tokens as generated ones.  What has ended is
 * neither sent nor submitted.
 *
 * Threading: the core's.  Memory: the tokens are the choice's.  Limits: the
 * method's size cap, max_tokens. */
#ifndef ROUTER_REQUESTS_RESUME_H
#define ROUTER_REQUESTS_RESUME_H

#include "proto/inference.pb-c.h"
#include "router/requests/request.h"

struct requests;

/* Does it say what its client has? */
static inline bool resume_asked(const Sluice__V1__GenerateRequest *m)
{
    return m->n_have_count > 0 || m->n_have_tokens > 0 || m->n_have_text > 0 ||
           m->n_have_ended > 0;
}

/* Are the columns whole, every id below the vocabulary, and no choice longer
 * than max_tokens, if that is said? */
MUST_CHECK enum status resume_check(const Sluice__V1__GenerateRequest *m,
                                    uint32_t vocab, struct error *e);

/* ... or than max_tokens became, once the prompt is there. */
MUST_CHECK enum status resume_check_length(const struct request *request,
                                           struct error *e);

/* What the call of the old one ends with then. */
void resume_superseded(struct error *e);

/* The old one of this id makes way for its successor: a call of it in another
 * session ends, what is kept is removed.  False: not yet; retry_ms is 0 if
 * that will not help, because the call is open in this very session. */
bool resume_make_way(struct requests *r, struct request *old,
                     const struct router_peer *p, uint32_t *retry_ms);

/* What m says of its choices becomes theirs.  If all of them have ended, so
 * has request, which may be gone: then false. */
bool resume_take(struct requests *r, struct request *request,
                 const Sluice__V1__GenerateRequest *m);

/* It is not refused any more: count it, if it was resumed. */
void resume_taken(struct requests *r, const struct request *request);

#endif
