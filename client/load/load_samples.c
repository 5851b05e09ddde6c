#include "client/load/load_samples.h"

#include <inttypes.h>

static void put_time(FILE *to, const char *name, int64_t us)
{
    if (us != SAMPLE_NEVER) {
        fprintf(to, ",\"%s\":%" PRId64, name, us);
    }
}

/* Writes a text as a JSON string; bytes outside printable ASCII as \u00xx. */
static void put_text(FILE *to, const char *name, const char *text)
{
    fprintf(to, ",\"%s\":\"", name);
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\') {
            fprintf(to, "\\%c", *c);
        } else if (*c >= ' ' && *c < 127) {
            fputc(*c, to);
        } else {
            fprintf(to, "\\u%04x", (unsigned char)*c);
        }
    }
    fputc('"', to);
}

void load_sample_write(FILE *to, const struct sample *s, const uint32_t *gaps)
{
    fprintf(to,
            "{\"session\":%" PRIu64 ",\"turn\":%" PRIu32 ",\"process\":%" PRIu32
            ",\"outcome\":\"%s\",\"code\":%u",
            s->session, s->turn, s->process, outcome_names[s->outcome],
            s->code);
    if (s->why[0]) {
        put_text(to, "why", s->why);
    }
    put_time(to, "due_us", s->due_us);
    put_time(to, "sent_us", s->sent_us);
    put_time(to, "first_us", s->first_us);
    put_time(to, "last_us", s->last_us);
    put_time(to, "end_us", s->end_us);
    put_time(to, "queue_us", s->queue_us);
    fprintf(to,
            ",\"prompt\":%" PRIu32 ",\"output\":%" PRIu32 ",\"cached\":%" PRIu32
            ",\"in_flight\":%" PRIu32
            ",\"warm\":%s,\"output_hash\":\"%016" PRIx64 "\",\"gaps_us\":[",
            s->n_prompt, s->n_output, s->n_cached, s->n_in_flight,
            s->flags & SAMPLE_WARM ? "true" : "false", s->output_hash);
    for (uint32_t i = 0; i < s->n_gaps; i++) {
        fprintf(to, "%s%" PRIu32, i ? "," : "", gaps[i]);
    }
    fputs("]}\n", to);
}
