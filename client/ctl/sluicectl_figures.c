/* sluicectl_figures.c - The figures of generate, as text (--figures) and as
 * JSON. */
#include <string.h>
#include <unistd.h>

#include "client/ctl/columns.h"
#include "client/ctl/escape.h"
#include "client/ctl/json_message.h"
#include "client/ctl/rate.h"
#include "client/ctl/sluicectl_generate.h"
#include "common/wire/request_id.h"
#include "proto/admin.pb-c.h"
#include "proto/common.pb-c.h"

/* Polls of a worker's pool after the end, 0.5 s at most.  A worker reports a
 * changed ledger within 10 ms. */
#define SETTLE_TRIES 20
#define SETTLE_US    25000

const char *ctl_finish_word(int finish)
{
    switch (finish) {
    case SLUICE__V1__FINISH__FINISH_STOP:
        return "stop";
    case SLUICE__V1__FINISH__FINISH_LENGTH:
        return "length";
    case SLUICE__V1__FINISH__FINISH_CANCELLED:
        return "cancelled";
    case SLUICE__V1__FINISH__FINISH_FAILED:
        return "failed";
    default:
        return "running";
    }
}

/* ---- JSON ---- */

static json_t *json_figures(const struct client_result *r)
{
    json_t *j = json_object();
    char seed[24];

    snprintf(seed, sizeof seed, "%llu", (unsigned long long)r->seed);
    json_set_count(j, "n_prompt", r->n_prompt);
    json_set_count(j, "n_generated", r->n_generated);
    json_set_count(j, "n_cached", r->n_cached);
    json_set_count(j, "queued_us", r->queued_us);
    json_set_count(j, "first_token_us", r->first_token_us);
    json_set_count(j, "total_us", r->total_us);
    json_set_count(j, "blocks", r->blocks);
    json_set_count(j, "slots", r->slots);
    json_set_count(j, "windows", r->windows);
    json_object_set_new(j, "seed", json_string(seed));
    json_set_count(j, "n_moves", r->n_moves);
    json_object_set_new(j, "worker", json_text(r->worker, strlen(r->worker)));
    json_set_count(j, "client_first_token_us", (uint64_t)r->first_chunk_us);
    json_set_count(j, "client_total_us", (uint64_t)r->end_us);
    return j;
}

/* A choice without an end in a cancelled request counts as cancelled. */
static json_t *json_choice(uint32_t i, const struct client_choice *k,
                           bool cancelled)
{
    json_t *j = json_object();
    bool cut = cancelled && k->finish == SLUICE__V1__FINISH__FINISH_RUNNING;

    json_set_count(j, "choice", i);
    json_object_set_new(
        j, "finish",
        json_string(cut ? "cancelled" : ctl_finish_word(k->finish)));
    if (k->stop_string >= 0) {
        json_set_count(j, "stop_string", (uint64_t)k->stop_string);
    }
    json_set_count(j, "n_generated", k->n_generated);
    json_set_count(j, "n_cached", k->n_cached);
    json_set_count(j, "queued_us", k->queued_us);
    json_set_count(j, "first_token_us", k->first_token_us);
    json_set_count(j, "total_us", k->total_us);
    json_set_count(j, "blocks", k->blocks);
    json_set_count(j, "slots", k->slots);
    json_set_count(j, "windows", k->windows);
    json_set_count(j, "n_moves", k->n_moves);
    json_object_set_new(j, "worker", json_text(k->worker, strlen(k->worker)));
    json_set_count(j, "client_first_token_us", (uint64_t)k->first_chunk_us);
    json_set_count(j, "client_total_us", (uint64_t)k->end_us);
    return j;
}

void ctl_print_json_end(const struct client_result *r)
{
    json_t *j = json_object(), *choices = json_array();
    char id[REQUEST_ID_TEXT];

    request_id_format(r->request_id, id);
    json_object_set_new(j, "request_id", json_string(id));
    json_object_set_new(
        j, "finish",
        json_string(r->has_receipt ? "cancelled" : ctl_finish_word(r->finish)));
    if (r->stop_string >= 0) {
        json_set_count(j, "stop_string", (uint64_t)r->stop_string);
    }
    for (uint32_t i = 0; i < r->n_choices; i++) {
        json_array_append_new(choices,
                              json_choice(i, &r->choices[i], r->has_receipt));
    }
    json_object_set_new(j, "choices", choices);
    json_set_count(j, "n_resumes", r->n_resumes);
    json_set_count(j, "gap_us", (uint64_t)r->gap_us);
    if (r->has_figures) {
        json_object_set_new(j, "figures", json_figures(r));
    }
    if (r->has_receipt) {
        json_object_set_new(j, "receipt", ctl_json_receipt(&r->receipt));
    }
    ctl_print_json(j);
}

/* ---- the pools after the end ---- */

static bool is_held(const struct ctl_worker *p)
{
    return p->blocks.held + p->blocks.granted + p->windows.held +
               p->windows.granted + p->slots.held + p->slots.granted >
           0;
}

/* Prints the worker's own ledger, as evidence that the memory is free.  The end
 * of a stream may arrive before the ledger, so a pool that still holds memory
 * is polled for a while.  Other requests may hold memory too. */
static void print_pool(const struct ctl *c, const char *worker)
{
    struct ctl_worker p;

    for (int i = 0; i < SETTLE_TRIES; i++) {
        if (ctl_find_worker(c, worker, &p) != ST_OK || !p.found) {
            return;
        }
        if (!is_held(&p)) {
            break;
        }
        usleep(SETTLE_US);
    }
    fprintf(stderr, "  pool of %-12s %u of %u blocks, ",
            ctl_name((ProtobufCBinaryData){strlen(worker),
                                           (uint8_t *)(uintptr_t)worker}),
            p.blocks.held + p.blocks.granted, p.blocks.total);
    if (p.windows.total > 0) {
        fprintf(stderr, "%u of %u window pages, ",
                p.windows.held + p.windows.granted, p.windows.total);
    }
    fprintf(stderr, "%u of %u slots held now\n", p.slots.held + p.slots.granted,
            p.slots.total);
}

/* Prints the pool of each worker once. */
static void print_pools(const struct ctl *c, const struct client_result *r)
{
    for (uint32_t i = 0; i < r->n_choices; i++) {
        const char *worker = r->choices[i].worker;
        bool seen = worker[0] == '\0';

        for (uint32_t k = 0; k < i; k++) {
            seen = seen || strcmp(worker, r->choices[k].worker) == 0;
        }
        if (!seen) {
            print_pool(c, worker);
        }
    }
}

/* ---- for people ---- */

/* Prints the decode speed: the tokens after the first chunk, divided by the
 * time after it.  The wait for room and prefill are not part of it. */
static void print_rate(const struct client_result *r)
{
    uint32_t n = r->n_generated > r->n_first ? r->n_generated - r->n_first : 0;
    double rate;

    if (rate_of(n, r->end_us - r->first_chunk_us, &rate)) {
        fprintf(stderr, "  tokens per second    %.1f\n", rate);
    } else {
        fprintf(stderr, "  tokens per second    - (too few or too fast)\n");
    }
}

/* Prints the end of a choice: 96 tokens, then stop, by "\n" */
static void print_end(const struct client_request *r,
                      const struct client_choice *k)
{
    fprintf(stderr, "%u token%s, then %s", k->n_generated,
            ctl_plural(k->n_generated), ctl_finish_word(k->finish));
    if (k->stop_string >= 0) {
        const struct client_stop *stop = &r->stops[k->stop_string];

        fputs(", by \"", stderr);
        escape_print(stderr, stop->text, stop->n, false);
        fputc('"', stderr);
    }
    fputc('\n', stderr);
}

static void print_generated(const struct client_request *r,
                            const struct client_result *result)
{
    fputs("  generated            ", stderr);
    if (result->n_choices == 1) {
        print_end(r, &result->choices[0]);
        return;
    }
    fprintf(stderr, "%u tokens in %u choices\n", result->n_generated,
            result->n_choices);
    for (uint32_t i = 0; i < result->n_choices; i++) {
        fprintf(stderr, "    choice %-11u  ", i);
        print_end(r, &result->choices[i]);
    }
}

void ctl_print_figures(const struct ctl *c, const struct client_request *r,
                       const struct client_result *result)
{
    char first[MICROS_TEXT], total[MICROS_TEXT], queued[MICROS_TEXT];

    micros_write(first, (uint64_t)result->first_chunk_us);
    micros_write(total, (uint64_t)result->end_us);
    micros_write(queued, result->queued_us);
    fprintf(stderr, "  prompt               %u token%s, %u of them reused\n",
            result->n_prompt, ctl_plural(result->n_prompt), result->n_cached);
    print_generated(r, result);
    fprintf(stderr, "  time to first token  %s (queued %s)\n", first, queued);
    print_rate(result);
    fprintf(stderr, "  total                %s\n", total);
    fprintf(stderr, "  blocks               %u held, %u released\n",
            result->blocks, result->blocks);
    if (result->windows > 0) {
        fprintf(stderr, "  window pages         %u held, %u released\n",
                result->windows, result->windows);
    }
    fprintf(stderr, "  slots                %u held, %u released\n",
            result->slots, result->slots);
    fprintf(stderr, "  seed                 %llu\n",
            (unsigned long long)result->seed);
    if (result->n_moves > 0) {
        fprintf(stderr, "  moved                %u time%s to another worker\n",
                result->n_moves, ctl_plural(result->n_moves));
    }
    if (result->n_resumes > 0) {
        micros_write(total, (uint64_t)result->gap_us);
        fprintf(stderr, "  resumed              %u time%s, %s lost in all\n",
                result->n_resumes, ctl_plural(result->n_resumes), total);
    }
    print_pools(c, result);
}
