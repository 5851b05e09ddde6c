/* grammar_limits.c - The rows that --limits prints. */
#include "text/grammar/grammar_limits.h"

#include "text/grammar/mask.h"
#include "text/grammar/number_range.h"
#include "text/grammar/objects.h"

const struct limit_row grammar_limits[] = {
    LIMIT_ROW(GRAMMAR_BYTES_MAX, "bytes",
              "one compiled grammar with all its states"),
    LIMIT_ROW(GRAMMAR_RULES_MAX, "", "rules of a grammar"),
    LIMIT_ROW(GRAMMAR_SOURCE_MAX, "bytes", "text of a JSON Schema"),
    LIMIT_ROW(GRAMMAR_PATTERN_MAX, "bytes", "text of a regular expression"),
    LIMIT_ROW(GRAMMAR_DEPTH_MAX, "", "oneOf and not inside one another"),
    LIMIT_ROW(GRAMMAR_REPEAT_MAX, "",
              "bound of a repetition: {n}, maxLength, maxItems"),
    LIMIT_ROW(GRAMMAR_NESTING_MAX, "",
              "groups of a regular expression inside one another"),
    LIMIT_ROW(GRAMMAR_SPLITS_MAX, "",
              "patternProperties of one object, with those of its allOf"),
    LIMIT_ROW(GRAMMAR_PAIRS_MAX, "", "pairs of oneOf branches to compare"),
    LIMIT_ROW(MASK_BYTES_MAX, "bytes", "masks that a grammar keeps"),
    LIMIT_ROW(NUMBER_MULTIPLE_MAX, "", "integer of multipleOf"),
    LIMIT_ROW(WHITE_SPACE_MAX, "characters", "indentation of a line of JSON"),
};
const size_t grammar_limits_n =
    sizeof grammar_limits / sizeof grammar_limits[0];
