/* report.h - Results for people and programs.
 *
 * Threading: none.  Functions return an error of the file, or ST_OK. */
#ifndef CLIENT_LOAD_REPORT_REPORT_H
#define CLIENT_LOAD_REPORT_REPORT_H

#include <stdio.h>

#include "client/load/figures/result.h"

#define REPORT_BYTES_MAX  (512u << 20) /* bytes in a JSON file */
#define REPORT_VALUES_MAX 8000000      /* in it */
#define REPORT_DEPTH_MAX  16
#define REPORT_RUNS_MAX   1024

/* Prints the summary of a result: a table of latencies with quantiles and
 * confidence, rates, outcomes by kind and reason, checks, the search. */
void report_summary(FILE *to, const struct result *r);

/* Writes the JSON that docs/load-json.md describes ("format": "sluice-load 2").
 */
MUST_CHECK enum status report_json(FILE *to, const struct result *r,
                                   struct error *e);

/* Writes a head and a row for each run, for spreadsheets: RFC 4180, times in
 * milliseconds, an empty cell for what is lost or absent. */
MUST_CHECK enum status report_csv(FILE *to, const struct result *r,
                                  struct error *e);

/* Reads it back: histograms and counts are equal to those written, other
 * numbers to 15 digits.  The sentence of an error names the member. */
MUST_CHECK enum status report_read(struct result *out, const char *path,
                                   struct error *e);

/* Reads text[0..n), as report_read() does.  *out is empty after an error. */
MUST_CHECK enum status report_parse(struct result *out, const char *text,
                                    size_t n, struct error *e);

/* Writes one self-contained HTML page. */
MUST_CHECK enum status report_html(FILE *to, const struct result *r,
                                   struct error *e);

/* One of report_json(), report_csv() and report_html(). */
typedef enum status report_fn(FILE *to, const struct result *r,
                              struct error *e);

/* Writes a file that is whole or absent: PATH.part, then renamed.  "-" is
 * standard output; a device or a pipe is written as it is.  The sentence of an
 * error has the path and the reason. */
MUST_CHECK enum status report_write(const char *path, report_fn *write_to,
                                    const struct result *r, struct error *e);

/* Sets *e to the reason that errno has.  Returns ST_UNAVAILABLE. */
enum status report_fault(struct error *e);

/* Compares two results: loads that both have, or the only ones.  Prints A, B,
 * B / A and a verdict for each figure:
 *
 *   better, worse   the difference is more than noise
 *   noise           it is not
 *   -               too few requests to judge
 *
 * The test is Welch's at 95 %: over the runs if both have at least
 * COMPARE_RUNS_MIN, else over batch means (tally_batch_values), for rates over
 * equal parts of the run.  Shares are judged by Wilson's bounds.  A figure that
 * is lost in one result only is worse there. */
#define COMPARE_RUNS_MIN 3
void report_compare(FILE *to, const struct result *a, const struct result *b);

/* ---- progress ---- */

/* A live view: lines redrawn in place at most 5 times a second.  Rates and
 * latencies are those of the last 5 s. */
struct progress;

/* Returns a view that prints to `to`, for progress_free().  width: columns of a
 * terminal; 0: no terminal, a plain line each 5 s.  Text is escaped.  title may
 * be NULL. */
struct progress *progress_new(FILE *to, unsigned width, const char *title);

/* Prints the lines if it is time.  end_us: expected; 0: unknown. */
void progress_show(struct progress *p, const struct tally *t, int64_t now_us,
                   int64_t end_us);

/* Takes the state of the cluster for the next drawings. */
void progress_cluster(struct progress *p, const struct cluster_point *c);

/* Prints a line that stays, with the time of the last progress_show(). */
void progress_event(struct progress *p, const char *text);

/* Clears the lines and frees *p. */
void progress_free(struct progress **p);

#endif
