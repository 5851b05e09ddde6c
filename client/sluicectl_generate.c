/* sluicectl generate: a completion, as it comes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/escape.h"
#include "client/sluicectl.h"
#include "client/table.h"
#include "common/request_id.h"
#include "proto/admin.pb-c.h"
#include "proto/common.pb-c.h"

#define SETTLE_TRIES 20
#define SETTLE_US    25000 /* a ledger is reported on change every 10 ms */

struct output {
    const struct ctl *ctl;
    bool escape, any, broken;
    char last;
};

static const char *finish_word(int finish)
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

static void print_json_chunk(const struct client_chunk *chunk, bool ids)
{
    json_t *tokens = json_array(), *j = json_object();

    for (size_t i = 0; i < chunk->n_tokens; i++) {
        json_array_append_new(tokens, json_integer(chunk->tokens[i]));
    }
    json_object_set_new(j, "first_index", json_integer(chunk->first_index));
    json_object_set_new(j, "tokens", tokens);
    if (!ids) {
        json_object_set_new(j, "text", json_text(chunk->text, chunk->n_text));
    }
    ctl_print_json(j);
}

static void print_text(struct output *out, const struct client_chunk *chunk)
{
    if (out->escape) {
        escape_print(stdout, chunk->text, chunk->n_text, true);
    } else {
        fwrite(chunk->text, 1, chunk->n_text, stdout);
    }
    if (chunk->n_text > 0) {
        out->last = chunk->text[chunk->n_text - 1];
    }
}

static void print_ids(struct output *out, const struct client_chunk *chunk)
{
    for (size_t i = 0; i < chunk->n_tokens; i++) {
        printf("%s%u", out->any || i > 0 ? " " : "", chunk->tokens[i]);
        out->last = '0';
    }
}

static bool on_chunk(void *arg, const struct client_chunk *chunk)
{
    struct output *out = arg;

    if (out->ctl->o.json) {
        print_json_chunk(chunk, out->ctl->o.ids);
    } else if (out->ctl->o.ids) {
        print_ids(out, chunk);
    } else {
        print_text(out, chunk);
    }
    out->any = true;
    out->broken = fflush(stdout) != 0 || ferror(stdout);
    return !out->broken;
}

static json_t *json_figures(const struct client_result *r)
{
    json_t *j = json_object();
    char seed[24];

    snprintf(seed, sizeof seed, "%llu", (unsigned long long)r->seed);
    json_object_set_new(j, "n_prompt", json_integer(r->n_prompt));
    json_object_set_new(j, "n_generated", json_integer(r->n_generated));
    json_object_set_new(j, "queued_us", json_integer((json_int_t)r->queued_us));
    json_object_set_new(j, "first_token_us",
                        json_integer((json_int_t)r->first_token_us));
    json_object_set_new(j, "total_us", json_integer((json_int_t)r->total_us));
    json_object_set_new(j, "blocks", json_integer(r->blocks));
    json_object_set_new(j, "slots", json_integer(r->slots));
    json_object_set_new(j, "seed", json_string(seed));
    json_object_set_new(j, "n_moves", json_integer(r->n_moves));
    json_object_set_new(j, "worker", json_text(r->worker, strlen(r->worker)));
    json_object_set_new(j, "client_first_token_us",
                        json_integer(r->first_chunk_us));
    json_object_set_new(j, "client_total_us", json_integer(r->end_us));
    return j;
}

/* The last line of a stream. */
static void print_json_end(const struct client_result *r)
{
    json_t *j = json_object();
    char id[REQUEST_ID_TEXT];

    request_id_format(r->request_id, id);
    json_object_set_new(j, "request_id", json_string(id));
    json_object_set_new(
        j, "finish",
        json_string(r->has_receipt ? "cancelled" : finish_word(r->finish)));
    if (r->has_figures) {
        json_object_set_new(j, "figures", json_figures(r));
    }
    if (r->has_receipt) {
        json_object_set_new(j, "receipt", ctl_json_receipt(&r->receipt));
    }
    ctl_print_json(j);
}

/* Tokens after the first, by the time after the first. */
static double tokens_per_second(const struct client_result *r)
{
    int64_t us = r->end_us - r->first_chunk_us;

    if (r->n_generated < 2 || us <= 0) {
        return 0;
    }
    return (r->n_generated - 1) * 1e6 / (double)us;
}

struct pool_now {
    const char *worker;
    bool found;
    Sluice__V1__ClassLedger blocks, slots;
};

static void find_pool(void *arg, const ProtobufCMessage *reply)
{
    struct pool_now *p = arg;
    const Sluice__V1__ListWorkersReply *m =
        (const Sluice__V1__ListWorkersReply *)reply;

    for (size_t i = 0; i < m->n_workers; i++) {
        const Sluice__V1__WorkerRow *w = m->workers[i];

        if (w->name.len == strlen(p->worker) &&
            memcmp(w->name.data, p->worker, w->name.len) == 0) {
            p->found = true;
            p->blocks = *w->ledger->blocks;
            p->slots = *w->ledger->slots;
        }
    }
}

static bool is_held(const struct pool_now *p)
{
    return p->blocks.held + p->blocks.granted + p->slots.held +
               p->slots.granted >
           0;
}

/* What the worker's own ledger says once it has reported the end. */
static void print_pool(struct ctl *c, const char *worker)
{
    Sluice__V1__ListRequest all = SLUICE__V1__LIST_REQUEST__INIT;
    struct pool_now p = {.worker = worker};
    struct error e;

    for (int i = 0; i < SETTLE_TRIES; i++) {
        if (client_call(c->client, METHOD_ADMIN_LIST_WORKERS, &all.base,
                        (uint32_t)c->o.timeout, find_pool, &p, &e) != ST_OK ||
            !p.found) {
            return;
        }
        if (!is_held(&p)) {
            break;
        }
        usleep(SETTLE_US);
    }
    fprintf(stderr,
            "  pool of %-12s %u of %u blocks and %u of %u slots are held now\n",
            worker, p.blocks.held + p.blocks.granted, p.blocks.total,
            p.slots.held + p.slots.granted, p.slots.total);
}

static void print_figures(struct ctl *c, const struct client_result *r)
{
    char first[MICROS_TEXT], total[MICROS_TEXT], queued[MICROS_TEXT];

    micros_write(first, (uint64_t)r->first_chunk_us);
    micros_write(total, (uint64_t)r->end_us);
    micros_write(queued, r->queued_us);
    fprintf(stderr, "  prompt               %u tokens\n", r->n_prompt);
    fprintf(stderr, "  generated            %u tokens, then %s\n",
            r->n_generated, finish_word(r->finish));
    fprintf(stderr, "  time to first token  %s (queued %s)\n", first, queued);
    fprintf(stderr, "  tokens per second    %.1f\n", tokens_per_second(r));
    fprintf(stderr, "  total                %s\n", total);
    fprintf(stderr, "  blocks               %u held, %u given back\n",
            r->blocks, r->blocks);
    fprintf(stderr, "  slots                %u held, %u given back\n", r->slots,
            r->slots);
    fprintf(stderr, "  seed                 %llu\n",
            (unsigned long long)r->seed);
    if (r->n_moves > 0) {
        fprintf(stderr, "  moved                %u times to another worker\n",
                r->n_moves);
    }
    print_pool(c, r->worker);
}

static int finish(struct ctl *c, enum status s, const struct client_result *r,
                  const struct error *e, struct output *out)
{
    bool cancelled = s == ST_CANCELLED;

    if (!c->o.json && !c->o.raw && !out->broken && out->any &&
        out->last != '\n') {
        putchar('\n');
    }
    fflush(stdout);
    if (out->broken) {
        fprintf(stderr, CTL_NAME ": cannot write: %s\n", strerror(EPIPE));
        return CTL_FAILED;
    }
    if (s != ST_OK && !(cancelled && r->has_receipt)) {
        int rc = ctl_fail(c, s, e->text, r->retry_after_ms);

        return rc == CTL_INTERRUPTED && !r->asked ? CTL_FAILED : rc;
    }
    if (c->o.json) {
        print_json_end(r);
    } else if (cancelled && !c->o.quiet) {
        fprintf(stderr, "cancelled: ");
        ctl_print_receipt(stderr, &r->receipt);
    } else if (c->o.figures) {
        fputc('\n', stderr);
        print_figures(c, r);
    }
    return cancelled ? CTL_INTERRUPTED : CTL_OK;
}

static int take_options(const struct ctl *c, struct client_request *r)
{
    const struct ctl_options *o = &c->o;
    char *end = NULL;

    *r = client_request_default();
    r->model = o->model;
    r->max_tokens = o->max_tokens;
    r->temperature = (float)o->temperature;
    r->top_k = o->top_k;
    r->top_p = (float)o->top_p;
    r->ignore_eos = o->ignore_eos;
    r->parse_special = o->parse_special;
    r->keep_ms = o->keep_ms;
    r->deadline_ms = (uint32_t)o->deadline;
    r->no_text = o->ids;
    if (o->seed != NULL) {
        errno = 0;
        r->has_seed = true;
        r->seed = strtoull(o->seed, &end, 10);
        if (*o->seed < '0' || *o->seed > '9' || *end != '\0' || errno != 0) {
            return ctl_misuse(c, "--seed takes a number, not \"%s\"", o->seed);
        }
    }
    if (o->request_id != NULL &&
        (!request_id_parse(o->request_id, r->request_id) ||
         request_id_is_zero(r->request_id))) {
        return ctl_misuse(c,
                          "--request-id takes 32 hex digits, not all 0; "
                          "\"%s\" is none",
                          o->request_id);
    }
    return CTL_OK;
}

static int run(struct ctl *c, struct client_request *r)
{
    struct output out = {.ctl = c,
                         .escape = !c->o.raw && isatty(STDOUT_FILENO)};
    struct client_result result;
    struct error e = {0};
    enum status s;
    int rc = ctl_open(c);

    if (rc != CTL_OK) {
        return rc;
    }
    r->on_chunk = on_chunk;
    r->arg = &out;
    ctl_catch_interrupt(c->client);
    s = client_generate(c->client, r, &result, &e);
    return finish(c, s, &result, &e, &out);
}

int ctl_generate(struct ctl *c)
{
    struct client_request r;
    char *text = NULL;
    uint32_t *ids = NULL;
    int rc = take_options(c, &r);

    if (rc != CTL_OK) {
        return rc;
    }
    if (c->o.ids) {
        rc = CTL_USAGE;
        if (ctl_ids(c, &ids, &r.n_ids)) {
            r.ids = ids;
            rc = run(c, &r);
        }
    } else {
        text = ctl_text(c, &r.n_text);
        r.text = text;
        rc = text == NULL ? CTL_USAGE : run(c, &r);
    }
    free(text);
    free(ids);
    return rc;
}
