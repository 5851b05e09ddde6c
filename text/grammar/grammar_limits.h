/* grammar_limits.h - Limits of compiled grammars.
 *
 * A schema that exceeds one is refused with ST_RESOURCE_EXHAUSTED and the
 * name of the limit.  Threading: constant data. */
#ifndef TEXT_GRAMMAR_GRAMMAR_LIMITS_H
#define TEXT_GRAMMAR_GRAMMAR_LIMITS_H

#include "common/base/limit.h"

#define GRAMMAR_BYTES_MAX   (256u << 20)
#define GRAMMAR_RULES_MAX   20000u
#define GRAMMAR_SOURCE_MAX  (1u << 20)
#define GRAMMAR_PATTERN_MAX 8192u
#define GRAMMAR_DEPTH_MAX   64u
#define GRAMMAR_REPEAT_MAX  1000000000u
#define GRAMMAR_NESTING_MAX 200u
#define GRAMMAR_SPLITS_MAX  8u
#define GRAMMAR_PAIRS_MAX   4000u

extern const struct limit_row grammar_limits[];
extern const size_t grammar_limits_n;

#endif
