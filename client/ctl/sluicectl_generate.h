/* sluicectl_generate.h - Parts of `sluicectl generate`: streamed chunks, table
 * of logprobs, figures.
 *
 * Threading: one thread.  Memory: the caller owns the stream; see each
 * declaration. */
#ifndef CLIENT_CTL_SLUICECTL_GENERATE_H
#define CLIENT_CTL_SLUICECTL_GENERATE_H

#include "client/ctl/ctl.h"
#include "client/ctl/turns.h"

struct ctl_logprobs;

/* Output of the chunks of one request. */
struct ctl_stream {
    const struct ctl *ctl;
    struct turns *turns;           /* NULL with --json */
    struct ctl_logprobs *logprobs; /* NULL unless a table is to be printed */
    uint32_t n_choices;
    bool escape; /* standard output is a terminal */
    bool broken; /* standard output failed */
    char last;   /* last byte shown; 0: nothing yet */
};

/* Prepares the output of request r; c is borrowed until ctl_stream_fini(). */
void ctl_stream_init(struct ctl_stream *s, const struct ctl *c,
                     const struct client_request *r);
void ctl_stream_fini(struct ctl_stream *s);

/* Prints a chunk; a client_chunk_fn whose arg is the stream.  Returns false if
 * standard output failed, which cancels the request. */
bool ctl_stream_chunk(void *arg, const struct client_chunk *chunk);

/* Reports a lost connection on standard error unless --quiet is given; a
 * client_resume_fn whose arg is the stream. */
void ctl_stream_lost(void *arg, const char *why);

/* Prints the text that was held for its turn, and ends the line. */
void ctl_stream_finish(struct ctl_stream *s);

/* Creates an empty table of logprobs, owned by the stream.  The table is
 * collected while the text is printed, and shown after the text. */
struct ctl_logprobs *ctl_logprobs_new(uint32_t n_choices, uint32_t n_top);
void ctl_logprobs_free(struct ctl_logprobs **l);

/* Adds the tokens of a chunk. */
void ctl_logprobs_add(struct ctl_logprobs *l, const struct client_chunk *chunk);

/* Prints the table on standard error.  Requests the texts of the tokens from
 * the router, except with --ids. */
void ctl_logprobs_print(const struct ctl *c, const struct ctl_logprobs *l);

/* Returns the word of a Sluice__V1__Finish: "stop", "length", ... */
const char *ctl_finish_word(int finish);

/* Prints the figures on standard error.  Requests the pools of the workers
 * from the router. */
void ctl_print_figures(const struct ctl *c, const struct client_request *r,
                       const struct client_result *result);

/* Prints the last line of --json. */
void ctl_print_json_end(const struct client_result *r);

#endif
