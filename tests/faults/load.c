/* load - A load of streams that are checked against recorded ones.
 *
 *     load ENDPOINT --record FILE [options]
 *     load ENDPOINT --check FILE [options]
 *
 * --record sends every request of the catalogue once and writes the streams to
 * FILE.  --check keeps --streams requests open, each in a thread with a client
 * of its own, and compares every token, text, logprob and ending with FILE.
 *
 * Lines on standard input:
 *
 *     mark          a fault has happened: print the first gap of each stream
 *                   that began before
 *     stop          begin no more requests; open ones run to their end
 *     (end)         exit at once
 *
 * Options:
 *
 *     --streams N   requests open at once (default: 32)
 *     --seed S      seed for the order of requests and for cancels
 *     --longest N   most tokens of a stream
 *     --cancel N    cancels per 1000 requests: at a token, after a time, or
 *                   at once
 *     --gap-ms N    shortest pause that counts as a gap (default: 20)
 *     --patience S  time after "stop" until open requests count as unended
 *     --all         a line for every ended request
 *
 * Prints lines of JSON: {"end":...} for a request that failed or differed,
 * {"gap":...} for a pause of a stream (times are CLOCK_MONOTONIC, in
 * microseconds), {"progress":...} 20 times a second, {"summary":...} at the
 * end.  The exit code is 0 if no request failed or was left unended, and no
 * token was lost, doubled or wrong. */
#include <assert.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proto/common.pb-c.h"
#include "tests/faults/catalogue.h"
#include "tests/faults/reference.h"
#include "tests/faults/tally.h"

#define STREAMS_MAX      256
#define PROGRESS_MS      50
#define CANCEL_WITHIN_US 60000 /* longest time until a timed cancel */
#define AGAIN_MS         20    /* pause after a failure */
#define OPEN_TRIES       400

enum fate { RUN, CANCEL_AT_TOKEN, CANCEL_AT_MOMENT, CANCEL_AT_ONCE };

struct stream {
    uint32_t number;
    pthread_t thread;
    struct client *client;
    uint64_t rng;
    uint32_t entry;
    enum fate fate;
    uint32_t after;            /* tokens until the cancel */
    atomic_llong cancel_at_us; /* 0: no timed cancel */
    int64_t last_us[CATALOGUE_CHOICES];
    int64_t mark_us;       /* time of the newest mark it has passed */
    atomic_llong moved_us; /* time of its newest token, or of its end */
    struct tally_end end;
    atomic_bool done;
};

static struct {
    const char *endpoint, *record, *check;
    uint32_t n_streams, longest, cancel, gap_ms, patience_s;
    uint64_t seed;
    bool all;
} options = {.n_streams = 32,
             .seed = 1,
             .longest = CATALOGUE_LONGEST,
             .gap_ms = 20,
             .patience_s = 300};

static struct entry catalogue[CATALOGUE];
static struct streams reference;
static struct stream streams[STREAMS_MAX];
static atomic_bool stopping;
static atomic_llong mark_us;
static uint32_t n_marks;       /* main thread only */
static atomic_uint next_entry; /* next entry to record */

static void die(const char *what, const char *why)
{
    fprintf(stderr, "load: %s: %s\n", what, why);
    exit(2);
}

static void pause_ms(uint32_t ms)
{
    const struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};

    nanosleep(&t, NULL);
}

/* Connects; retries, because the router may be down at the moment. */
static struct client *open_client(uint32_t number)
{
    char name[32];
    struct client_config config = {.endpoint = options.endpoint,
                                   .name = name,
                                   .key = getenv("SLUICE_KEY"),
                                   .trust = getenv("SLUICE_TRUST")};
    struct client *c = NULL;
    struct error e = {0};

    snprintf(name, sizeof name, "load-%" PRIu32, number);
    for (int i = 0; i < OPEN_TRIES && !atomic_load(&stopping); i++) {
        if (client_open(&c, &config, &e) == ST_OK) {
            return c;
        }
        pause_ms(AGAIN_MS);
    }
    if (!atomic_load(&stopping)) {
        die("no connection", e.text);
    }
    return NULL;
}

/* Reports a stream that paused at a mark and continues now. */
static void note_gap(struct stream *s, uint32_t choice, bool first)
{
    int64_t now_us = tally_now_us(), last_us = s->last_us[choice];
    int64_t at_us = atomic_load(&mark_us);

    s->last_us[choice] = now_us;
    atomic_store(&s->moved_us, now_us);
    if (now_us - last_us <= (int64_t)options.gap_ms * 1000) {
        return;
    }
    tally_gap(s->number, last_us, now_us, first,
              last_us < at_us && s->mark_us != at_us);
    s->mark_us = at_us;
}

static bool on_chunk(void *arg, const struct client_chunk *c)
{
    struct stream *s = arg;
    struct reading *r = &s->end.readings[c->choice];
    const struct stream_of_choice *wanted = &reference.of[s->entry][c->choice];

    if (c->n_tokens > 0) {
        note_gap(s, c->choice, r->n_tokens == 0);
    }
    reading_chunk(r, wanted, catalogue[s->entry].request.stops, c);
    if (c->finish != SLUICE__V1__FINISH__FINISH_RUNNING &&
        c->finish != SLUICE__V1__FINISH__FINISH_CANCELLED) {
        reading_end(r, wanted, c->finish, c->stop_string);
    }
    return s->fate != CANCEL_AT_TOKEN || r->n_tokens < s->after;
}

static bool on_recorded(void *arg, const struct client_chunk *c)
{
    struct stream *s = arg;

    stream_append(&reference.of[s->entry][c->choice], c);
    return true;
}

static void draw_fate(struct stream *s)
{
    s->fate = RUN;
    if (catalogue_draw(&s->rng, 1000) >= options.cancel) {
        return;
    }
    s->fate = (enum fate)(CANCEL_AT_TOKEN + catalogue_draw(&s->rng, 3));
    if (s->fate == CANCEL_AT_TOKEN) {
        s->after = 1 + (uint32_t)catalogue_draw(
                           &s->rng, catalogue[s->entry].request.max_tokens);
    } else if (s->fate == CANCEL_AT_MOMENT) {
        atomic_store(&s->cancel_at_us,
                     tally_now_us() +
                         (int64_t)catalogue_draw(&s->rng, CANCEL_WITHIN_US));
    } else {
        client_interrupt(s->client);
    }
}

static enum status generate(struct stream *s, client_chunk_fn *take,
                            struct client_result *result, struct error *e)
{
    struct client_request r = catalogue[s->entry].request;

    for (size_t i = 0; i < sizeof r.request_id; i++) {
        r.request_id[i] = (uint8_t)catalogue_draw(&s->rng, 256);
    }
    r.on_chunk = take;
    r.arg = s;
    return client_generate(s->client, &r, result, e);
}

static void check_one(struct stream *s)
{
    static _Thread_local struct client_result result;
    struct error e = {0};
    int64_t now_us = tally_now_us();

    s->entry = (uint32_t)catalogue_draw(&s->rng, CATALOGUE);
    s->end = (struct tally_end){
        .stream = s->number, .entry = s->entry, .result = &result};
    for (size_t i = 0; i < CATALOGUE_CHOICES; i++) {
        s->last_us[i] = now_us;
    }
    draw_fate(s);
    s->end.status = generate(s, on_chunk, &result, &e);
    atomic_store(&s->cancel_at_us, 0);
    atomic_store(&s->moved_us, tally_now_us());
    s->end.why = s->end.status == ST_OK ? "" : e.text;
    tally_ended(&s->end, options.all);
    if (s->end.status != ST_OK && !result.cancelled_here) {
        pause_ms(result.retry_after_ms > 0 && result.retry_after_ms < 1000
                     ? result.retry_after_ms
                     : AGAIN_MS);
    }
}

static void *run_check(void *arg)
{
    struct stream *s = arg;

    s->client = open_client(s->number);
    while (!atomic_load(&stopping)) {
        check_one(s);
    }
    atomic_store(&s->done, true);
    return NULL;
}

static void *run_record(void *arg)
{
    static _Thread_local struct client_result result;
    struct stream *s = arg;
    struct error e;

    s->client = open_client(s->number);
    while ((s->entry = atomic_fetch_add(&next_entry, 1)) < CATALOGUE) {
        if (generate(s, on_recorded, &result, &e) != ST_OK) {
            die("cannot record a request", e.text);
        }
    }
    atomic_store(&s->done, true);
    return NULL;
}

/* Runs timed cancels. */
static void *run_clock(void *arg)
{
    (void)arg;
    while (!atomic_load(&stopping)) {
        int64_t now_us = tally_now_us();

        for (uint32_t i = 0; i < options.n_streams; i++) {
            long long at = atomic_load(&streams[i].cancel_at_us);

            if (at != 0 && at <= now_us &&
                atomic_compare_exchange_strong(&streams[i].cancel_at_us, &at,
                                               0)) {
                client_interrupt(streams[i].client);
            }
        }
        pause_ms(1);
    }
    return NULL;
}

static uint32_t n_open(void)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < options.n_streams; i++) {
        n += !atomic_load(&streams[i].done);
    }
    return n;
}

/* Reads the lines available.  Returns false at "stop". */
static bool read_lines(void)
{
    char text[256];
    ssize_t n = read(STDIN_FILENO, text, sizeof text);

    if (n <= 0) {
        _exit(3); /* the parent has gone */
    }
    if (memchr(text, 'm', (size_t)n) != NULL) {
        atomic_store(&mark_us, tally_now_us());
        n_marks++;
    }
    return memchr(text, 's', (size_t)n) == NULL;
}

static uint32_t n_behind(void)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < options.n_streams; i++) {
        n += atomic_load(&streams[i].moved_us) < atomic_load(&mark_us);
    }
    return n;
}

static void await_stop(void)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    int64_t said_us = 0;

    for (;;) {
        if (tally_now_us() - said_us >= PROGRESS_MS * 1000) {
            said_us = tally_now_us();
            tally_progress(n_marks, n_behind());
        }
        if (poll(&in, 1, PROGRESS_MS) > 0 && !read_lines()) {
            return;
        }
    }
}

static uint32_t await_ends(void)
{
    int64_t end_us = tally_now_us() + (int64_t)options.patience_s * 1000000;
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    char byte;

    atomic_store(&stopping, true);
    while (n_open() > 0 && tally_now_us() < end_us) {
        if (poll(&in, 1, 2) > 0 && read(STDIN_FILENO, &byte, 1) == 0) {
            _exit(3);
        }
    }
    return n_open();
}

static void start(void *(*run)(void *), struct stream *s)
{
    if (pthread_create(&s->thread, NULL, run, s) != 0) {
        die("no thread", "too many");
    }
}

static void start_all(void *(*run)(void *))
{
    for (uint32_t i = 0; i < options.n_streams; i++) {
        streams[i].number = i;
        streams[i].rng = options.seed * STREAMS_MAX + i;
        start(run, &streams[i]);
    }
}

static void end_all(void)
{
    for (uint32_t i = 0; i < options.n_streams; i++) {
        pthread_join(streams[i].thread, NULL);
        client_close(&streams[i].client);
    }
}

static int record(void)
{
    struct error e;

    start_all(run_record);
    end_all();
    if (streams_write(&reference, catalogue, options.record, options.longest,
                      &e) != ST_OK) {
        die("record", e.text);
    }
    return 0;
}

static int check(void)
{
    struct error e;
    pthread_t clock;
    uint32_t unended;

    if (streams_read(&reference, options.check, options.longest, &e) != ST_OK) {
        die("check", e.text);
    }
    start_all(run_check);
    if (options.cancel > 0 &&
        pthread_create(&clock, NULL, run_clock, NULL) != 0) {
        die("no thread", "too many");
    }
    await_stop();
    unended = await_ends();
    tally_summary(unended);
    fflush(stdout);
    if (unended > 0) {
        _exit(1);
    }
    if (options.cancel > 0) {
        pthread_join(clock, NULL);
    }
    end_all();
    return tally_is_well() ? 0 : 1;
}

/* Returns a number in the range, or exits with usage. */
static uint32_t number(const char *name, const char *text, uint32_t least,
                       uint32_t most)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);

    if (*text == '\0' || *end != '\0' || n < least || n > most) {
        die(name, "not a number, or out of range");
    }
    return (uint32_t)n;
}

static void set(const char *name, const char *text)
{
    if (strcmp(name, "--record") == 0) {
        options.record = text;
    } else if (strcmp(name, "--check") == 0) {
        options.check = text;
    } else if (strcmp(name, "--streams") == 0) {
        options.n_streams = number(name, text, 1, STREAMS_MAX);
    } else if (strcmp(name, "--seed") == 0) {
        options.seed = number(name, text, 0, UINT32_MAX);
    } else if (strcmp(name, "--longest") == 0) {
        options.longest = number(name, text, 1, CATALOGUE_LONGEST);
    } else if (strcmp(name, "--cancel") == 0) {
        options.cancel = number(name, text, 0, 1000);
    } else if (strcmp(name, "--gap-ms") == 0) {
        options.gap_ms = number(name, text, 0, 1000000);
    } else if (strcmp(name, "--patience") == 0) {
        options.patience_s = number(name, text, 1, 3600);
    } else {
        die(name, "no such option");
    }
}

int main(int argc, char **argv)
{
    int at = 2;

    if (argc < 4) {
        die("usage", "load ENDPOINT --record FILE | --check FILE [options]");
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    options.endpoint = argv[1];
    while (at < argc) {
        if (strcmp(argv[at], "--all") == 0) {
            options.all = true;
            at++;
        } else if (at + 1 < argc) {
            set(argv[at], argv[at + 1]);
            at += 2;
        } else {
            die(argv[at], "a value is required");
        }
    }
    catalogue_make(catalogue, options.longest);
    if ((options.record == NULL) == (options.check == NULL)) {
        die("usage", "one of --record and --check");
    }
    at = options.record != NULL ? record() : check();
    streams_free(&reference);
    return at;
}
