/* hello_words.h - The words of a Hello that all workers of a model share: the
 * KV format and the arithmetic id.
 *
 * Tokens depend on them, and a sequence may go on at another worker.  A word
 * that a worker does not state is not compared.  With
 * options.mixed_arithmetic, arithmetic ids may differ.
 *
 * Threading: the core's.  Memory: none. */
#ifndef ROUTER_CALLS_HELLO_WORDS_H
#define ROUTER_CALLS_HELLO_WORDS_H

#include "proto/registry.pb-c.h"
#include "router/base/router_options.h"
#include "router/fleet/models.h"

struct hello_words {
    char format[KV_FORMAT_MAX + 1], arithmetic[ARITHMETIC_MAX + 1];
};

/* Returns the words of a shard or of an offer, "" where absent.  They were
 * checked. */
struct hello_words hello_words_of_shard(const Sluice__V1__WorkerShard *s);
struct hello_words hello_words_of_offer(const Sluice__V1__WorkerOffer *o);

/* Compares them with those of n connected workers of m.  Returns
 * ST_FAILED_PRECONDITION with both words and what to do. */
MUST_CHECK enum status hello_words_check(const struct hello_words *w,
                                         const struct router_options *o,
                                         const struct model *m, uint32_t n,
                                         struct error *e);

/* Returns whether sequences of m may go on with these words. */
bool hello_words_go_on(const struct hello_words *w,
                       const struct router_options *o, const struct model *m);

/* Sets the words of m that are not known. */
void hello_words_learn(const struct hello_words *w, struct model *m);

#endif
