/* sluicectl_generate.h - the parts of `sluicectl generate`: chunks as they
 * come, logprobs, figures.
 *
 * Threading: one thread.  Memory: as said at each. */
#ifndef CLIENT_CTL_SLUICECTL_GENERATE_H
#define CLIENT_CTL_SLUICECTL_GENERATE_H

#include "client/ctl/sluicectl.h"
#include "client/ctl/turns.h"

struct ctl_logprobs;

/* What is done with chunks. */
struct ctl_stream {
    const struct ctl *ctl;
    struct turns *turns;           /* NULL with --json */
    struct ctl_logprobs *logprobs; /* NULL unless they are for people */
    uint32_t n_choices;
    bool escape, broken; /* broken: standard output takes no more */
    char last;           /* shown; 0: nothing yet */
};

void ctl_stream_init(struct ctl_stream *s, const struct ctl *c,
                     const struct client_request *r);
void ctl_stream_fini(struct ctl_stream *s);

/* A client_chunk_fn, arg is the stream. */
bool ctl_stream_chunk(void *arg, const struct client_chunk *chunk);

/* A client_resume_fn: says so on standard error, but for --quiet. */
void ctl_stream_lost(void *arg, const char *why);

/* No more comes: show what was held back, end the line. */
void ctl_stream_finish(struct ctl_stream *s);

/* Logprobs are kept while the text is printed, and shown after it as a table
 * on standard error.  Owned by the stream. */
struct ctl_logprobs *ctl_logprobs_new(uint32_t n_choices, uint32_t n_top);
void ctl_logprobs_free(struct ctl_logprobs **l);
void ctl_logprobs_add(struct ctl_logprobs *l, const struct client_chunk *chunk);
/* Asks the router for the texts of the tokens, but for --ids. */
void ctl_logprobs_print(const struct ctl *c, const struct ctl_logprobs *l);

const char *ctl_finish_word(int finish);

/* On standard error; asks the router for the pools of the workers. */
void ctl_print_figures(const struct ctl *c, const struct client_request *r,
                       const struct client_result *result);

/* The last line of --json. */
void ctl_print_json_end(const struct client_result *r);

#endif
