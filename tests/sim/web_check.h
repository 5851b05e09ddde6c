/* web_check.h - Checks of the responses that HTTP clients receive.
 *
 * The oracle gives the tokens of each choice, hence its text, its logprobs, its
 * end and the usage.  A whole response must have exactly these, streamed or
 * not; a response that is cut must have a beginning of them. */
#ifndef SIM_WEB_CHECK_H
#define SIM_WEB_CHECK_H

#include "tests/sim/web.h"

/* Checks the response to a call, which the reader holds. */
void web_check_whole(struct web_conn *c, struct web_call *call);

/* Checks the beginning of a response, if it has begun: the connection is
 * over. */
void web_check_cut(struct web_conn *c, struct web_call *call, bool begun);

/* Count what a connection is, and its requests when the client leaves. */
void web_check_begins(const struct web_conn *c);
void web_check_leaves(const struct web_conn *c);

/* Checks later that the requests of a client that has left have ended.  Its
 * server has received the loss. */
void web_check_left(const struct web_conn *c);

/* Checks the end of a connection whose client does not read. */
void web_check_stalled(const struct web_conn *c);

#endif
