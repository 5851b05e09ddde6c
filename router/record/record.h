/* record.h - Events of a router for a replay: arrivals, grants, first tokens,
 * endings, and the places with the costs of their steps.
 *
 * A recording is text: a line for each event, fields separated by one blank.
 * It has no text, no token, no hash and no id of a request.  Readers are
 * router/replay/recording.h.
 *
 *     recording = "sluice-record 1" NL options *weight *event
 *     options   = "o" T ADMISSION SUSPENSIONS QUEUE_US WAIT_US REQUESTS WAITING
 *                 KEPT HEADROOM [QUOTA BUDGET] NL
 *                                      ADMISSION: strict, expected; HEADROOM:
 *                                      0, 1; the rest as in router_options.h
 *     weight    = "t" T TENANT WEIGHT NL
 *     event     = "p" T PLACE NAME MODEL GROWS BLOCK_TOKENS BLOCK_PAGES
 *                     SLOT_PAGES PAGES SLOTS CONTEXT ROWS WINDOW_TOKENS
 *                     WINDOW_PAGES CHUNK NL            a place is there
 *               | "c" T PLACE BASE_NS ROW_NS TOKEN_NS CHUNK NL    its steps
 *               | "x" T PLACE NL                       it is gone
 *               | "a" T REQUEST MODEL TENANT PROMPT MAX_TOKENS CHOICES
 *                     DEADLINE_US CACHE LIKE SHARED [TIER GUARANTEED ROUTE]
 *                     NL                               a request comes
 *               | "r" T REQUEST STATUS NL              it is refused
 *               | "g" T REQUEST CHOICE PLACE PAGES NL  a choice is granted
 *               | "f" T REQUEST CHOICE RESTORED NL     its first token
 *               | "s" T REQUEST CHOICE NL              it is suspended
 *               | "e" T REQUEST CHOICE TOKENS HOW NL   it ends
 *               | "l" T LINES NL       so many lines before this one are lost
 *     T         = microseconds since the begin; never decreases
 *     HOW       = "stop" | "length" | "cancelled" | "failed"
 *     TIER      = "priority" | "default" | "flex"
 *
 * The fields in brackets are all there, or none in a recording of an older
 * router: it had no quota, no budget, no tiers, guarantees and routes.
 *
 * A request comes when its prompt has been converted to tokens, or is refused
 * before.  PLACE and REQUEST count from 1 in order of their lines.  A place is
 * a session of a worker, or of the leader of a replica, which has the pages of
 * its tightest stage.  DEADLINE_US is the time left, 0: none.  CACHE is 0 if
 * nothing is reused for the request.  Its first SHARED tokens are those of
 * request LIKE, of its prompt or of the output of its first choice: the longest
 * prefix that an earlier request had, in units of PREFIX_UNIT; 0 0: none. Names
 * have bytes outside of "!".."~", and "%", as % and two digits; an empty name
 * is "-", and "-" is "%2D".
 *
 * The recorder formats lines and hands them to a sink, which must not block:
 * router/record_file.h writes them in a thread.  Every function is a no-op for
 * a recorder that is NULL.
 *
 * Threading: the core's thread.  Memory: one block with a table of
 * RECORD_PREFIXES hashes; events allocate nothing.  Limits: RECORD_LINE_MAX. */
#ifndef ROUTER_RECORD_RECORD_H
#define ROUTER_RECORD_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire/prefix_hash.h"

#define RECORD_FIRST_LINE "sluice-record 1"
#define RECORD_LINE_MAX   1024  /* bytes, with the newline */
#define RECORD_PREFIXES   65536 /* prefixes that are found again */
#define RECORD_PLACES     64    /* places at a time */

/* Where lines go. */
struct record_sink {
    /* Takes text[0..n), whole lines.  Returns false if there is no room. */
    bool (*put)(struct record_sink *s, const char *text, size_t n);
};

struct record_options {
    bool strict, headroom;
    uint32_t suspensions, max_requests, max_waiting, kept;
    uint32_t tenant_quota, retry_budget;
    int64_t queue_timeout_us, worker_wait_us;
};

struct record_place {
    uint64_t session;
    const char *name, *model;
    bool grows;
    uint32_t block_tokens, block_pages, slot_pages, pages, slots, context;
    uint32_t max_rows, window_tokens, window_pages, chunk_tokens;
};

/* Cost of a step of a place: base + row * rows + token * prompt tokens. */
struct record_cost {
    uint64_t base_ns, row_ns, token_ns;
    uint32_t chunk; /* the most prompt tokens of a step */
};

/* In the order of enum fair_tier. */
enum record_tier { RECORD_PRIORITY, RECORD_DEFAULT, RECORD_FLEX, RECORD_TIERS };

struct record_arrival {
    const char *model, *tenant, *route; /* tenant, route: "": none */
    uint32_t n_prompt, max_tokens, n_choices;
    int64_t deadline_us; /* that is left; 0: none */
    bool cache, guaranteed;
    enum record_tier tier;
    const struct prefix_hash *units; /* [n_units] of the prompt */
    uint32_t n_units;
};

enum record_end {
    RECORD_STOP,
    RECORD_LENGTH,
    RECORD_CANCELLED,
    RECORD_FAILED,
    RECORD_ENDS
};

struct recorder;

/* Creates a recorder on a sink, which must outlive it, at now_us; NULL without
 * memory. */
struct recorder *recorder_new(struct record_sink *sink);
void recorder_free(struct recorder **r);

/* Write the first lines, at the begin of the recording. */
void record_options(struct recorder *r, int64_t now_us,
                    const struct record_options *o);
void record_weight(struct recorder *r, int64_t now_us, const char *tenant,
                   uint32_t weight);

/* Reports that a place is there.  Writes it if it is new, and its cost if that
 * has changed. */
void record_place(struct recorder *r, int64_t now_us,
                  const struct record_place *p);

/* Takes a step of the place of a session: its time, sequences that got a token,
 * and prompt tokens.  Plain steps give base and row by least squares over all
 * of them, mixed ones token. */
void record_step(struct recorder *r, uint64_t session, uint32_t us,
                 uint32_t n_rows, uint32_t n_prompt_tokens);

/* Ends a walk over all places: those that record_place() did not report since
 * the last call are gone. */
void record_places_seen(struct recorder *r, int64_t now_us);

/* Returns the number of the request; 0 if r is NULL.  The events below are
 * no-ops for number 0. */
uint64_t record_arrival(struct recorder *r, int64_t now_us,
                        const struct record_arrival *a);
void record_refused(struct recorder *r, int64_t now_us, uint64_t request,
                    const char *status);
void record_granted(struct recorder *r, int64_t now_us, uint64_t request,
                    uint32_t choice, uint64_t session, uint64_t pages);
void record_first(struct recorder *r, int64_t now_us, uint64_t request,
                  uint32_t choice, uint32_t restored);
void record_suspended(struct recorder *r, int64_t now_us, uint64_t request,
                      uint32_t choice);
void record_ended(struct recorder *r, int64_t now_us, uint64_t request,
                  uint32_t choice, uint32_t n_tokens, enum record_end how);

/* Remembers a prefix of the output of a request, for those that come later. */
void record_prefix(struct recorder *r, uint64_t request,
                   struct prefix_hash prefix);

/* Returns the word of a tier in a recording. */
const char *record_tier_name(enum record_tier tier);

/* Returns the word of an ending in a recording. */
const char *record_end_name(enum record_end how);

/* Writes name[0..n) as a recording has it, and its NUL, to out.  Returns the
 * bytes without the NUL: RECORD_NAME(n) at most. */
#define RECORD_NAME(n) (3 * (n) + 1)
size_t record_name(char *out, const char *name);

#endif
