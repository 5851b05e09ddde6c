/* sluicectl_generate.c - The verb generate: from the options to a request, its
 * run, and its end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/argument.h"
#include "client/ctl/sluicectl_generate.h"
#include "common/base/memory.h"
#include "common/base/option_value.h"
#include "common/wire/request_id.h"

/* Parsed values of the list options; the request borrows them. */
struct lists {
    uint32_t bias_tokens[LOGIT_BIASES_MAX];
    float biases[LOGIT_BIASES_MAX];
    uint32_t stop_tokens[STOP_TOKENS_MAX];
    struct client_stop stops[STOP_STRINGS_MAX];
    char *texts[STOP_STRINGS_MAX]; /* texts of the stops; owned */
};

/* Prints the end of a request and returns the exit code.  Ctrl-C gives 130,
 * with a receipt if one came; a cancel by another client is a failure, 1. */
static int finish_request(struct ctl *c, enum status s,
                          const struct client_request *r,
                          const struct client_result *result,
                          const struct error *e, struct ctl_stream *stream)
{
    bool cancelled = s == ST_CANCELLED;

    ctl_stream_finish(stream);
    if (stream->broken) {
        return CTL_FAILED; /* ctl_end_output() prints the reason */
    }
    if (s != ST_OK && !(cancelled && result->has_receipt)) {
        int rc = ctl_fail(c, s, e->text, result->retry_after_ms);

        return rc == CTL_INTERRUPTED && !result->cancelled_here ? CTL_FAILED
                                                                : rc;
    }
    if (stream->logprobs != NULL) {
        fputc('\n', stderr);
        ctl_logprobs_print(c, stream->logprobs);
    }
    if (c->o.json) {
        ctl_print_json_end(result);
    } else if (cancelled && !c->o.quiet) {
        fprintf(stderr, "cancelled: ");
        ctl_print_receipt(stderr, &result->receipt);
    } else if (c->o.figures && !cancelled) {
        fputc('\n', stderr);
        ctl_print_figures(c, r, result);
    }
    return cancelled ? CTL_INTERRUPTED : CTL_OK;
}

/* ---- options ---- */

static int take_biases(const struct ctl *c, struct client_request *r,
                       struct lists *l)
{
    struct error e;
    size_t n = 0;

    r->sampling.bias_tokens = l->bias_tokens;
    r->sampling.biases = l->biases;
    for (unsigned i = 0; i < c->o.logit_bias.n; i++) {
        if (argument_biases(c->o.logit_bias.item[i], l->bias_tokens, l->biases,
                            LOGIT_BIASES_MAX, &n, &e) != ST_OK) {
            return ctl_misuse(c, "--logit-bias: %s", e.text);
        }
    }
    r->sampling.n_biases = (uint32_t)n;
    return CTL_OK;
}

static int take_stop_tokens(const struct ctl *c, struct client_request *r,
                            struct lists *l)
{
    struct error e;
    size_t n = 0;

    r->sampling.stop_tokens = l->stop_tokens;
    for (unsigned i = 0; i < c->o.stop_token.n; i++) {
        if (argument_ids(c->o.stop_token.item[i], l->stop_tokens,
                         STOP_TOKENS_MAX, &n, &e) != ST_OK) {
            return ctl_misuse(c, "--stop-token: %s", e.text);
        }
    }
    r->sampling.n_stop_tokens = (uint32_t)n;
    return CTL_OK;
}

static int take_stops(const struct ctl *c, struct client_request *r,
                      struct lists *l)
{
    struct error e;

    r->stops = l->stops;
    for (unsigned i = 0; i < c->o.stop.n; i++) {
        const char *text = c->o.stop.item[i];
        size_t n;

        l->texts[i] = memory_must(malloc(strlen(text) + 1));
        if (argument_text(text, l->texts[i], &n, &e) != ST_OK) {
            return ctl_misuse(c, "--stop: %s", e.text);
        }
        if (n == 0 || n > STOP_STRING_BYTES_MAX) {
            return ctl_misuse(c, "--stop: %zu bytes; 1 to %d are allowed", n,
                              STOP_STRING_BYTES_MAX);
        }
        l->stops[i] = (struct client_stop){l->texts[i], n};
        r->n_stops++;
    }
    return CTL_OK;
}

/* Takes --seed and --request-id.  strtoull() alone would accept blanks and a
 * sign before the seed. */
static int take_names(const struct ctl *c, struct client_request *r)
{
    const struct ctl_options *o = &c->o;
    char *end = NULL;

    if (o->seed != NULL) {
        errno = 0;
        r->has_seed = true;
        r->sampling.seed = strtoull(o->seed, &end, 10);
        if (*o->seed < '0' || *o->seed > '9' || *end != '\0' || errno != 0) {
            return ctl_misuse(c,
                              "--seed \"%s\": a number from 0 to "
                              "18446744073709551615 is required",
                              o->seed);
        }
    }
    if (o->request_id != NULL &&
        (!request_id_parse(o->request_id, r->request_id) ||
         request_id_is_zero(r->request_id))) {
        return ctl_misuse(c,
                          "--request-id \"%s\": 32 hex digits, not all 0, are "
                          "required",
                          o->request_id);
    }
    return CTL_OK;
}

static int take_tier(const struct ctl *c, struct client_request *r)
{
    static const char *const names[] = {[CLIENT_TIER_DEFAULT] = "default",
                                        [CLIENT_TIER_PRIORITY] = "priority",
                                        [CLIENT_TIER_FLEX] = "flex"};

    for (size_t i = 0; c->o.tier != NULL; i++) {
        if (i == sizeof names / sizeof names[0]) {
            return ctl_misuse(c,
                              "--tier \"%s\": priority, default or flex is "
                              "required",
                              c->o.tier);
        }
        if (strcmp(c->o.tier, names[i]) == 0) {
            r->turn.tier = (enum client_tier)i;
            break;
        }
    }
    return CTL_OK;
}

static int take_drafts(const struct ctl *c, struct client_request *r)
{
    struct error e;

    return option_u32("drafts", c->o.drafts, DRAFTS_MAX, &r->drafts.given,
                      &r->drafts.n, &e) == ST_OK
               ? CTL_OK
               : ctl_misuse(c, "%s", e.text);
}

static int take_continue(const struct ctl *c, struct client_request *r)
{
    const char *text = c->o.continue_from;
    size_t n = text == NULL ? 0 : strcspn(text, "/"), one = 0;
    char id[REQUEST_ID_TEXT];
    struct error e;

    if (text == NULL) {
        return CTL_OK;
    }
    r->has_continue = true;
    snprintf(id, sizeof id, "%.*s", (int)n, text);
    if (n + 1 != sizeof id || !request_id_parse(id, r->continue_id) ||
        (text[n] == '/' && (argument_ids(text + n + 1, &r->continue_choice, 1,
                                         &one, &e) != ST_OK ||
                            r->continue_choice >= CHOICES_MAX))) {
        return ctl_misuse(c,
                          "--continue-from \"%s\": 32 hex digits are required, "
                          "and /CHOICE for a choice other than 0",
                          text);
    }
    return CTL_OK;
}

/* Copies the options that are numbers and flags.  Their ranges were checked by
 * the option table. */
static void take_values(const struct ctl_options *o, struct client_request *r)
{
    *r = client_request_default();
    r->model = o->model;
    r->max_tokens = o->max_tokens;
#define X(field, kind, unset, least, most) \
    r->sampling.field = (SAMPLING_C_##kind)o->field;
    SAMPLING_VALUES(X)
#undef X
    r->sampling.logprobs = o->logprobs || o->top_logprobs > 0;
    r->sampling.n_top_logprobs = o->top_logprobs;
    r->n = o->n;
    r->parse_special = o->parse_special;
    r->special_text = o->special_text;
    r->tenant = o->tenant;
    r->cache_salt = o->cache_salt;
    r->no_cache = o->no_cache;
    r->turn.guaranteed = o->guaranteed;
    r->keep_ms = (uint32_t)o->keep;
    r->deadline_ms = (uint32_t)o->deadline;
    r->no_resume = o->no_resume;
    r->resume_ms = (uint32_t)o->resume;
    r->no_text = o->ids;
}

static int take_options(const struct ctl *c, struct client_request *r,
                        struct lists *l)
{
    int rc;

    take_values(&c->o, r);
    if (c->o.raw && c->o.n > 1 && !c->o.json) {
        return ctl_misuse(c, "--raw prints one choice only; use --json with "
                             "--n");
    }
    rc = take_names(c, r);
    rc = rc == CTL_OK ? take_continue(c, r) : rc;
    rc = rc == CTL_OK ? take_tier(c, r) : rc;
    rc = rc == CTL_OK ? take_drafts(c, r) : rc;
    rc = rc == CTL_OK ? take_biases(c, r, l) : rc;
    rc = rc == CTL_OK ? take_stop_tokens(c, r, l) : rc;
    return rc == CTL_OK ? take_stops(c, r, l) : rc;
}

/* Connects and runs the request.  From ctl_catch_interrupt() on, Ctrl-C cancels
 * the request instead of ending the program. */
static int run_request(struct ctl *c, struct client_request *r)
{
    struct ctl_stream stream;
    struct client_result result;
    struct error e = {0};
    enum status s;
    int rc = ctl_open(c);

    if (rc != CTL_OK) {
        return rc;
    }
    ctl_stream_init(&stream, c, r);
    r->on_chunk = ctl_stream_chunk;
    r->on_resume = ctl_stream_lost;
    r->arg = &stream;
    ctl_catch_interrupt(c->client);
    s = client_generate(c->client, r, &result, &e);
    rc = finish_request(c, s, r, &result, &e, &stream);
    ctl_stream_fini(&stream);
    return rc;
}

/* Reads the prompt after the options are checked, so that an error in them
 * shows before a prompt is typed in. */
static int with_prompt(struct ctl *c, struct client_request *r)
{
    char *text = NULL;
    uint32_t *ids = NULL;
    int rc = CTL_USAGE;

    if (c->o.ids) {
        if (ctl_ids(c, &ids, &r->n_ids)) {
            r->ids = ids;
            rc = run_request(c, r);
        }
    } else {
        text = ctl_text(c, &r->n_text);
        r->text = text;
        rc = text == NULL ? CTL_USAGE : run_request(c, r);
    }
    free(text);
    free(ids);
    return rc;
}

int ctl_generate(struct ctl *c)
{
    struct client_request r;
    struct lists lists = {0};
    int rc = take_options(c, &r, &lists);

    if (rc == CTL_OK) {
        rc = with_prompt(c, &r);
    }
    for (unsigned i = 0; i < STOP_STRINGS_MAX; i++) {
        free(lists.texts[i]);
    }
    return rc;
}
