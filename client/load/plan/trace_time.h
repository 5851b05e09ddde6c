/* trace_time.h - Times of a trace.
 *
 * Threading, memory: none. */
#ifndef CLIENT_LOAD_PLAN_TRACE_TIME_H
#define CLIENT_LOAD_PLAN_TRACE_TIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Converts text[0..n) to microseconds: "12.5" seconds since any moment, or an
 * ISO 8601 date and time "2023-11-16 18:17:03.9799600", with a blank or T
 * between, of the years 1970 to 9999.  "Z" and "+01:00" may follow.  Further
 * digits of a fraction are cut.  Returns false if text is no time. */
bool trace_time(const char *text, size_t n, int64_t *us);

#endif
