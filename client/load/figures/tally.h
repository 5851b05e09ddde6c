/* tally.h - The figures of a run, from its samples.
 *
 * Each latency is measured from the intended start and from the send.  A
 * request that did not end OK is "lost" in TTFT (if it had no token) and in
 * end-to-end: it stays in the tail.  This holds for refusals, failures,
 * timeouts and unsent requests.  Injected cancels and disconnects are counted
 * by kind and are no part of end-to-end.
 *
 *   METRIC_TTFT       first token - intended start
 *   METRIC_TTFT_SENT  first token - send
 *   METRIC_ITL        between two chunks of a request
 *   METRIC_TPOT       (last - first token) / (tokens - 1), requests that ended
 * OK METRIC_E2E        end - intended start;  METRIC_E2E_SENT  end - send
 *   METRIC_QUEUE      waiting, as the server reports
 *   METRIC_LAG        send - intended start: the generator's own delay
 *   METRIC_PROMPT     tokens of each prompt that was sent
 *   METRIC_OUTPUT     tokens of each answer that ended OK
 *
 * Times in microseconds.  Samples of the warm-up count nowhere but in
 * n_warm.
 *
 * Intervals: a row each second, then each 2, 4, .. s, so that TALLY_ROWS
 * suffice: memory is flat however long the run.  A request belongs to the row
 * of its intended start, tokens and gaps to the row in which they came.
 *
 * Reasons are equal if they differ in digits only; the first is kept.  When
 * TALLY_WHYS are full, the last of them counts all others.
 *
 * Threading: none.  Memory: owns all.  Pure. */
#ifndef CLIENT_LOAD_FIGURES_TALLY_H
#define CLIENT_LOAD_FIGURES_TALLY_H

#include "client/load/figures/histogram.h"
#include "client/load/figures/sample.h"
#include "common/base/status.h"

#define TALLY_ROWS       600
#define TALLY_BATCHES    20 /* for confidence intervals by batch means */
#define TALLY_WHYS       32 /* distinct reasons kept */
#define TALLY_LEVELS     16 /* in flight: 1, 2, 4, .. */
#define TALLY_PROCESSES  64 /* generators with a count in flight */
#define TALLY_GROUPS_MIN 5  /* batches of an interval at least */
#define TALLY_OTHER_WHYS "other reasons"

enum metric {
    METRIC_TTFT,
    METRIC_TTFT_SENT,
    METRIC_ITL,
    METRIC_TPOT,
    METRIC_E2E,
    METRIC_E2E_SENT,
    METRIC_QUEUE,
    METRIC_LAG,
    METRIC_PROMPT,
    METRIC_OUTPUT,
    METRICS
};

/* {"ttft", "time to first token", "us"}, ... */
struct metric_name {
    const char *key, *title, *unit;
};
extern const struct metric_name metric_table[METRICS];

/* Objectives: a request is good if it ended OK and every limit holds.  0: no
 * limit.  itl: its longest gap. */
struct objectives {
    int64_t ttft_us, tpot_us, itl_us, e2e_us;
    double attain; /* share of the requests that must be good, 0.99 */
};

/* Parses "ttft=500ms" into one field. */
MUST_CHECK enum status objectives_parse(struct objectives *o, const char *text,
                                        struct error *e);
bool objectives_any(const struct objectives *o);
bool objectives_met(const struct objectives *o, const struct sample *s,
                    const uint32_t *gaps);

struct tally_row {
    int64_t from_us, to_us;
    uint64_t n_due, n_ended[OUTCOMES], n_good;
    uint64_t n_output, n_prompt; /* tokens that came, but for requests that
                                  * failed; prompts that were sent */
    uint32_t in_flight_max;
    int64_t lag_max_us;
    struct histogram ttft, itl, e2e; /* this row's */
};

/* Requests sent while n .. 2n - 1 were in flight.  A sample has the number of
 * its own process; shares are equal, so the sum is that times the processes
 * that had a pulse. */
struct tally_level {
    uint32_t in_flight;
    struct histogram ttft, itl;
};

struct tally_why {
    char why[SAMPLE_WHY];
    uint8_t outcome;
    uint16_t code;
    uint64_t n;
};

/* Consecutive requests, by the order in which they ended. */
struct tally_batch {
    uint64_t n;
    struct histogram metrics[METRICS];
};

/* Counts of requests that ended, unless stated. */
struct tally_counts {
    uint64_t n_outcomes[OUTCOMES]; /* without warm-up */
    uint64_t n_warm, n_good;
    uint64_t n_slow_readers, n_receipts, n_leaked, n_bad_streams, n_resumed;
    uint64_t n_moves;
    uint64_t n_prompt, n_output, n_cached; /* tokens */
    uint64_t n_chunked; /* ended OK, and output counts chunks (sample.h) */
    uint64_t n_checked, n_differ; /* outputs compared with the solo run */
};

struct tally {
    struct objectives objectives;
    struct histogram metrics[METRICS];
    struct tally_counts counts;
    int64_t gap_max_us;     /* longest pause by a resumption */
    int64_t from_us, to_us; /* measured: first intended start, last end */
    bool has_time;          /* from_us and to_us are set */
    struct tally_row rows[TALLY_ROWS]; /* [n_rows] */
    uint32_t n_rows;
    int64_t row_us;
    struct tally_level levels[TALLY_LEVELS]; /* [n_levels] */
    uint32_t n_levels;
    struct tally_why whys[TALLY_WHYS]; /* [n_whys] */
    uint32_t n_whys;
    /* Batches have batch_size requests each, the last at most so many.  When
     * all are full, pairs are merged and batch_size doubles. */
    struct tally_batch batches[TALLY_BATCHES]; /* [n_batches] */
    uint32_t n_batches;
    uint64_t batch_size;
    struct histogram turns; /* longest turn of the loop, of each pulse */
    uint64_t n_pulses;
    uint32_t n_in_flight;                /* now, of all processes */
    uint32_t in_flight[TALLY_PROCESSES]; /* [n_processes], by pulses */
    uint32_t n_processes;
};

struct tally *tally_new(const struct objectives *o);
void tally_free(struct tally **t);

/* Takes a sample and its gaps[s->n_gaps]. */
void tally_sample(struct tally *t, const struct sample *s,
                  const uint32_t *gaps);
void tally_pulse(struct tally *t, const struct pulse *p);

/* Adds the figures of another run or generator.  Counts, histograms and rows
 * are those of all samples taken together; times since the start are of each
 * run's own start.  So rates of merged repeats are sums: take the mean of the
 * runs' own. */
void tally_merge(struct tally *to, const struct tally *from);

/* A confidence interval of a quantile or, with q < 0, of the mean: by batch
 * means over consecutive requests, Student's t, 95 %.  Centred on the figure
 * of all requests.  Returns false if there are fewer than TALLY_GROUPS_MIN
 * batches of enough requests, for q = 0 and 1, and if a batch has the quantile
 * among its lost values. */
struct tally_span {
    double low, high;
};
bool tally_interval(const struct tally *t, enum metric m, double q,
                    struct tally_span *out);

/* Fills the quantile or mean of each batch, after merging neighbours so that
 * each has at least 1 / min(q, 1 - q) values: 100 for p99.  Returns their
 * number; 0 if a quantile is lost. */
uint32_t tally_batch_values(const struct tally *t, enum metric m, double q,
                            double out[TALLY_BATCHES]);

/* Returns the measured time in seconds. */
double tally_seconds(const struct tally *t);

/* Return requests that ended OK, output tokens without those of failed
 * requests, and good requests per second of the measured time. */
double tally_requests_per_s(const struct tally *t);
double tally_tokens_per_s(const struct tally *t);
double tally_goodput(const struct tally *t);

/* Returns the number of requests outside of the warm-up, however they ended. */
uint64_t tally_requests(const struct tally *t);

/* Returns the number of requests that should have been good: without injected
 * ends. */
uint64_t tally_wanted(const struct tally *t);

/* Returns whether a run is no measurement, and writes a sentence: p99 of the
 * generators' lag exceeds lag_max_us, or nothing was measured. */
bool tally_invalid(const struct tally *t, int64_t lag_max_us, char *why,
                   size_t size);

#endif
