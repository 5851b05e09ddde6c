/* stream.h - The output of a request, sent at the pace of its client.
 *
 * Tokens wait in the array of their choice, 4 bytes each.  Their logprobs, if
 * requested, wait beside it (logprob_columns.h).  A chunk is made when the
 * client's link has room, and holds everything new.  The last chunk of each
 * choice carries finish and figures; after the last chunk of the last choice
 * the call ends.  The choices of one client take turns, a chunk each, whether
 * they belong to one call or to many.
 *
 * Chunks for a client leave at once, unless its previous chunks left less than
 * options.gather_us ago.  Then everything that becomes ready until that time
 * leaves together, or at once with the last chunk of a choice, which never
 * waits.  A client thus gets one frame of chunks in that time, however many
 * workers serve it.  A frame costs a client more than a token does.
 *
 * A call with output ready, of which its client takes nothing for
 * SLOW_READER_MS, is cancelled.  Nothing else ever waits for a slow client.
 *
 * Text is made with its chunk.  The token that ended the choice has no text,
 * and neither have special tokens unless the request asks for theirs.  The
 * bytes of an incomplete character are flushed with the last chunk.  The text
 * of a choice with stop strings follows its tokens at a distance (stops.h),
 * until the last chunk.
 *
 * Threading: the core's thread only.  Memory: the choices' own, and the scratch
 * text of struct requests. */
#ifndef ROUTER_REQUESTS_STREAM_H
#define ROUTER_REQUESTS_STREAM_H

#include "router/requests/request.h"

/* The output for one session. */
struct session_output {
    struct router_peer *peer;
    struct list ready;   /* struct choice: with output for the session */
    int64_t streamed_us; /* when chunks were last sent */
    int64_t due_us;      /* when gathered chunks are sent, or NODE_IDLE */
    struct event slow;   /* ready output has waited SLOW_READER_MS */
};

static inline struct session_output *output_of(const struct router_peer *p)
{
    return p->parts[PART_REQUESTS];
}

/* Initialises the output of a new session, and clears its timer at the end.
 * slow: the callback of that timer, with r. */
void stream_open(struct requests *r, struct router_peer *p,
                 void (*slow)(void *room, struct event *e));
void stream_close(struct requests *r, struct router_peer *p);

/* Prepares the output that choice needs: text if the model has a tokenizer,
 * stop strings, logprobs.  Returns false without memory; what was prepared goes
 * with the choice. */
MUST_CHECK bool stream_begin(struct requests *r, struct choice *choice);

/* Adds choice, which has new output or has ended, to the ready list of its
 * client. */
void stream_ready(struct requests *r, struct choice *choice);

/* Sends the chunks that are ready for p, as far as its link has room. */
void stream_pump(struct requests *r, struct router_peer *p);

/* Sends at once what request has gathered, at most a chunk per choice, because
 * its call is about to fail. */
void stream_rest(struct requests *r, struct request *request);

#endif
