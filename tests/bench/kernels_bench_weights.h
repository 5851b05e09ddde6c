/* kernels_bench_weights.h - The weights of a random model of kernels_bench.
 *
 * Threading: none.  Memory: the caller's. */
#ifndef TESTS_BENCH_KERNELS_BENCH_WEIGHTS_H
#define TESTS_BENCH_KERNELS_BENCH_WEIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "tests/kernels/random_model.h"

/* Takes --weights (c = 'w'), names of weight_format_name() with commas between
 * them, which it replaces, as a set of 1u << weight_format; or --products
 * ('x').  Returns false for another option or name. */
bool bench_weights_take(int c, char *text, uint32_t *set,
                        enum kernels_products *products);

/* Gives all matrices of r formats of the set, at random; 0: changes nothing. */
void bench_weights_shape(struct random_shape *r, uint32_t set);

/* Packs w as a worker does, if o has integer products.  Exits on failure. */
void bench_weights_pack(struct shard_weights *w,
                        const struct kernels_options *o);

#endif
