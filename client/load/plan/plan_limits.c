#include "client/load/plan/plan_limits.h"

#include "client/load/plan/arrivals.h"
#include "client/load/plan/dataset.h"
#include "client/load/plan/pace.h"
#include "client/load/plan/plan_state.h"
#include "client/load/plan/spread.h"
#include "client/load/plan/trace.h"
#include "client/load/plan/trace_line.h"
#include "client/load/plan/words.h"

const struct limit_row plan_limits[] = {
    LIMIT_ROW(PLAN_TURNS_MAX, "turns", "a session"),
    LIMIT_ROW(PLAN_PIECES_MAX, "pieces", "the prompt of a turn"),
    LIMIT_ROW(PLAN_TOKENS_MAX, "tokens", "a prompt, an output"),
    LIMIT_ROW(PLAN_PREFIX_MAX, "", "different shared prefixes"),
    LIMIT_ROW(PLAN_BRANCH_MAX, "turns", "successors of a turn"),
    LIMIT_ROW(PACE_ITEMS_MAX, "items", "--rate"),
    LIMIT_ROW(PACE_RATE_MAX, "per second", "--rate, --bursts"),
    LIMIT_ROW(SPREAD_US_MAX, "us", "--think, --turn-think"),
    LIMIT_ROW(TRACE_BYTES_MAX, "bytes", "a trace"),
    LIMIT_ROW(TRACE_LINE_MAX, "bytes", "a line of a trace"),
    LIMIT_ROW(TRACE_ROWS_MAX, "rows", "a trace"),
    LIMIT_ROW(TRACE_BLOCKS_MAX, "blocks", "hash_ids of a trace"),
    LIMIT_ROW(TRACE_TOKENS_MAX, "tokens", "a prompt, an output of a trace"),
    LIMIT_ROW(DATASET_BYTES_MAX, "bytes", "a dataset"),
    LIMIT_ROW(DATASET_ROW_BYTES_MAX, "bytes", "a row of a dataset"),
    LIMIT_ROW(DATASET_ROWS_MAX, "rows", "a dataset"),
    LIMIT_ROW(DATASET_TOKENS_MAX, "tokens", "an output of a dataset"),
    LIMIT_ROW(TRACE_COLUMNS_MAX, "columns", "a line of a CSV trace"),
    LIMIT_ROW(TRACE_MS_MAX, "ms", "a timestamp of a JSONL trace"),
    LIMIT_ROW(ARRIVALS_CV_MAX, "", "CV of --arrivals gamma:CV"),
    LIMIT_ROW(PLAN_TEXT_MAX, "bytes", "the description of a plan"),
    LIMIT_ROW(WORDS_FILE_BYTES_MAX, "bytes", "--text"),
    LIMIT_ROW(WORDS_WORD_BYTES_MAX, "bytes", "a word of --text; longer is cut"),
};

const size_t plan_limits_n = sizeof plan_limits / sizeof plan_limits[0];
