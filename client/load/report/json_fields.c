#include "client/load/report/json_fields.h"

#include "client/load/figures/result.h"

#define ROW(kind, type, member)                                \
    {                                                          \
#member, FIELD_##kind, offsetof(struct type, member),  \
            sizeof(((struct type *)0)->member), NULL, 0, false \
    }
/* A member of the struct `part` in it, by its own name. */
#define ROW_IN(kind, type, part, member)                            \
    {                                                               \
#member, FIELD_##kind, offsetof(struct type, part.member),  \
            sizeof(((struct type *)0)->part.member), NULL, 0, false \
    }
#define LATER_IN(kind, type, part, member)                         \
    {                                                              \
#member, FIELD_##kind, offsetof(struct type, part.member), \
            sizeof(((struct type *)0)->part.member), NULL, 0, true \
    }
#define LATER(kind, type, member)                             \
    {                                                         \
#member, FIELD_##kind, offsetof(struct type, member), \
            sizeof(((struct type *)0)->member), NULL, 0, true \
    }
#define WORD(type, member, words)                           \
    {                                                       \
#member, FIELD_WORD, offsetof(struct type, member), \
            sizeof(((struct type *)0)->member), words,      \
            sizeof(words) / sizeof((words)[0]), false       \
    }
#define TABLE(name, rows) \
    const struct fields name = {rows, sizeof(rows) / sizeof((rows)[0])}

static const char *const roles[] = {
    [RUN_PLAIN] = "plain",     [RUN_REPEAT] = "repeat", [RUN_TRIAL] = "trial",
    [RUN_CONFIRM] = "confirm", [RUN_BEYOND] = "beyond",
};
static const char *const kinds[] = {
    [SEARCH_BRACKET] = "bracket",
    [SEARCH_BISECT] = "bisect",
    [SEARCH_CONFIRM] = "confirm",
    [SEARCH_BEYOND] = "beyond",
};
static const char *const verdicts[] = {
    [SEARCH_OPEN] = "open",
    [SEARCH_MEETS] = "meets",
    [SEARCH_MISSES] = "misses",
};

static const struct field of_result[] = {
    ROW(STRING, result, title),  ROW(STRING, result, target),
    ROW(STRING, result, model),  ROW(STRING, result, command),
    ROW(STRING, result, host),   ROW(INT, result, lag_max_us),
    ROW(BOOL, result, searched),
};
TABLE(result_fields, of_result);

static const struct field of_objectives[] = {
    ROW(INT, objectives, ttft_us), ROW(INT, objectives, tpot_us),
    ROW(INT, objectives, itl_us),  ROW(INT, objectives, e2e_us),
    ROW(REAL, objectives, attain),
};
TABLE(objectives_fields, of_objectives);

static const struct field of_run[] = {
    WORD(run, role, roles),
    ROW(REAL, run, load),
    ROW(BOOL, run, closed),
    ROW(STRING, run, plan),
    ROW(STRING, run, started),
    ROW(BOOL, run, invalid),
    ROW(BOOL, run, stopped),
    ROW(TEXT, run, why_invalid),
    ROW(BOOL, run, audited),
    ROW(BOOL, run, audit_ok),
    ROW(TEXT, run, audit),
    ROW(UINT, run, n_offered),
    ROW(UINT, run, stride),
    LATER(UINT, run, draft_rows),
    LATER(UINT, run, drafts_verified),
    LATER(UINT, run, drafts_accepted),
};
TABLE(run_fields, of_run);

static const struct field of_point[] = {
    ROW(INT, cluster_point, at_us),
    ROW(UINT, cluster_point, n_workers),
    ROW(UINT, cluster_point, n_waiting),
    ROW(UINT, cluster_point, n_running),
    ROW(UINT, cluster_point, pages_total),
    ROW(UINT, cluster_point, pages_free),
    ROW(UINT, cluster_point, pages_held),
    ROW(UINT, cluster_point, pages_cached),
    ROW(UINT, cluster_point, pages_granted),
    ROW(UINT, cluster_point, slots_total),
    ROW(UINT, cluster_point, slots_free),
    ROW(UINT, cluster_point, slots_held),
    ROW(UINT, cluster_point, slots_cached),
    ROW(UINT, cluster_point, slots_granted),
    ROW(UINT, cluster_point, checkpoints_cached),
    LATER(UINT, cluster_point, windows_total),
    LATER(UINT, cluster_point, windows_free),
    LATER(UINT, cluster_point, windows_held),
    LATER(UINT, cluster_point, windows_cached),
    LATER(UINT, cluster_point, windows_granted),
    LATER(UINT, cluster_point, n_suspended),
    LATER(UINT, cluster_point, host_total),
    LATER(UINT, cluster_point, host_used),
};
TABLE(point_fields, of_point);

static const struct field of_event[] = {
    ROW(INT, load_event, at_us),
    ROW(TEXT, load_event, text),
    ROW(INT, load_event, exit_code),
};
TABLE(event_fields, of_event);

static const struct field of_tally[] = {
    ROW_IN(UINT, tally, counts, n_warm),
    ROW_IN(UINT, tally, counts, n_good),
    ROW_IN(UINT, tally, counts, n_slow_readers),
    ROW_IN(UINT, tally, counts, n_receipts),
    ROW_IN(UINT, tally, counts, n_leaked),
    ROW_IN(UINT, tally, counts, n_bad_streams),
    ROW_IN(UINT, tally, counts, n_resumed),
    ROW_IN(UINT, tally, counts, n_moves),
    ROW_IN(UINT, tally, counts, n_prompt),
    ROW_IN(UINT, tally, counts, n_output),
    ROW_IN(UINT, tally, counts, n_cached),
    LATER_IN(UINT, tally, counts, n_chunked),
    ROW_IN(UINT, tally, counts, n_checked),
    ROW_IN(UINT, tally, counts, n_differ),
    ROW(INT, tally, gap_max_us),
    ROW(INT, tally, from_us),
    ROW(INT, tally, to_us),
    ROW(BOOL, tally, has_time),
    ROW(INT, tally, row_us),
    ROW(UINT, tally, batch_size),
    ROW(UINT, tally, n_pulses),
    ROW(HISTOGRAM, tally, turns),
};
TABLE(tally_fields, of_tally);

static const struct field of_row[] = {
    ROW(INT, tally_row, from_us),        ROW(INT, tally_row, to_us),
    ROW(UINT, tally_row, n_due),         ROW(UINT, tally_row, n_good),
    ROW(UINT, tally_row, n_output),      ROW(UINT, tally_row, n_prompt),
    ROW(UINT, tally_row, in_flight_max), ROW(INT, tally_row, lag_max_us),
    ROW(HISTOGRAM, tally_row, ttft),     ROW(HISTOGRAM, tally_row, itl),
    ROW(HISTOGRAM, tally_row, e2e),
};
TABLE(row_fields, of_row);

static const struct field of_level[] = {
    ROW(UINT, tally_level, in_flight),
    ROW(HISTOGRAM, tally_level, ttft),
    ROW(HISTOGRAM, tally_level, itl),
};
TABLE(level_fields, of_level);

/* The outcome goes by outcome_names: its table is no constant here. */
static const struct field of_why[] = {
    ROW(TEXT, tally_why, why),
    ROW(UINT, tally_why, code),
    ROW(UINT, tally_why, n),
};
TABLE(why_fields, of_why);

static const struct field of_search[] = {
    ROW(REAL, search, low),     ROW(REAL, search, high),
    ROW(BOOL, search, done),    ROW(BOOL, search, confirmed),
    ROW(BOOL, search, invalid), ROW(BOOL, search, capped),
    WORD(search, kind, kinds),  ROW(REAL, search, load),
};
TABLE(search_fields, of_search);

static const struct field of_search_options[] = {
    ROW(REAL, search_options, first),  ROW(REAL, search_options, min),
    ROW(REAL, search_options, max),    ROW(REAL, search_options, tolerance),
    ROW(REAL, search_options, attain), ROW(UINT, search_options, repeats),
    ROW(BOOL, search_options, whole),
};
TABLE(search_options_fields, of_search_options);

static const struct field of_trial[] = {
    ROW(REAL, search_trial, load),     ROW(UINT, search_trial, n_good),
    ROW(UINT, search_trial, n_wanted), ROW(UINT, search_trial, n_runs),
    WORD(search_trial, kind, kinds),   WORD(search_trial, verdict, verdicts),
};
TABLE(trial_fields, of_trial);
