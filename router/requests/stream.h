/* stream.h - what a generation owes its client, as the client reads it.
 *
 * Tokens wait in the request's own array, 4 bytes each, their logprobs, if
 * they were asked for, beside it (logprob_columns.h).  A chunk is made when
 * the client's link has room, and then holds all that is new; the last one of
 * each choice carries finish and figures, and after the last of the last
 * choice the call ends.  Of several choices of one client, be they of one call
 * or of many, each gets a chunk in turn.
 *
 * Chunks leave for a client at once, unless the last ones left less than
 * options.gather_us ago: then all that comes until that time is over leaves
 * together, or with the last chunk of a choice, which never waits.  So a
 * client has one frame of chunks in that time, however many workers work for
 * it, and a frame costs a client more than a token.
 *
 * A call of which something is ready and nothing was taken for SLOW_READER_MS
 * is cancelled; nothing else ever waits for a reader.
 *
 * Text is made when its chunk is: special tokens give none, nor does the
 * token that ended the generation, and what was held back of a character is
 * flushed with the last chunk.  Of a choice with stop strings the text follows
 * its tokens at a distance (stops.h), till the last chunk brings what is left.
 *
 * Threading: the core's. */
#ifndef ROUTER_REQUESTS_STREAM_H
#define ROUTER_REQUESTS_STREAM_H

#include "router/requests/request.h"

struct requests;

/* Make ready to give what choice wants: text if the model has a tokenizer, its
 * end at a stop string, logprobs. */
void stream_begin(struct requests *r, struct choice *choice);

/* choice has something new for its client. */
void stream_ready(struct requests *r, struct choice *choice);

/* Send what there is room for. */
void stream_pump(struct requests *r, struct router_peer *p);

/* Send now what request has gathered, a chunk a choice: its call is about to
 * fail. */
void stream_rest(struct requests *r, struct request *request);

#endif
