#include "client/load/drive/flight.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"

void flight_begin(struct flight *f, int64_t due_us)
{
    f->sample = (struct sample){
        .due_us = due_us,
        .sent_us = SAMPLE_NEVER,
        .first_us = SAMPLE_NEVER,
        .last_us = SAMPLE_NEVER,
        .end_us = SAMPLE_NEVER,
        .queue_us = SAMPLE_NEVER,
    };
    f->has_ids = f->has_text = false;
    f->n_output = 0;
}

static void gap_add(struct flight *f, int64_t us)
{
    struct sample *s = &f->sample;
    uint32_t gap = us < 0 ? 0 : us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;

    if (s->n_gaps == FLIGHT_GAPS_MAX) {
        if (gap > f->gaps[FLIGHT_GAPS_MAX - 1]) {
            f->gaps[FLIGHT_GAPS_MAX - 1] = gap;
        }
        return;
    }
    if (s->n_gaps == f->gaps_size) {
        f->gaps_size = f->gaps_size == 0 ? 64 : 2 * f->gaps_size;
        f->gaps = memory_must(realloc(f->gaps, f->gaps_size * sizeof *f->gaps));
    }
    f->gaps[s->n_gaps++] = gap;
}

void flight_output(struct flight *f, int64_t at_us, uint32_t n)
{
    struct sample *s = &f->sample;

    if (s->n_events == 0) {
        s->first_us = at_us;
    } else {
        gap_add(f, at_us - s->last_us);
    }
    s->last_us = at_us;
    s->n_events++;
    s->n_output += n;
}

void flight_hash(struct flight *f, const uint32_t *ids, size_t n_ids,
                 const char *text, size_t n_text)
{
    if (n_ids > 0) {
        if (!f->has_ids) {
            XXH64_reset(&f->ids, 0);
        }
        f->has_ids = true;
        XXH64_update(&f->ids, ids, n_ids * sizeof *ids);
    }
    if (n_text > 0) {
        if (!f->has_text) {
            XXH64_reset(&f->text, 0);
        }
        f->has_text = true;
        XXH64_update(&f->text, text, n_text);
    }
}

void flight_keep(struct flight *f, const char *text, size_t n)
{
    size_t size = f->output_size > 0 ? f->output_size : 1024;

    if (n > FLIGHT_OUTPUT_MAX - f->n_output) {
        f->n_output = FLIGHT_OUTPUT_MAX;
        return;
    }
    while (size < f->n_output + n) {
        size *= 2;
    }
    if (size != f->output_size) {
        f->output = memory_must(realloc(f->output, size));
        f->output_size = size;
    }
    memcpy(f->output + f->n_output, text, n);
    f->n_output += n;
}

static uint64_t hash_of(const struct flight *f)
{
    if (f->has_ids) {
        return XXH64_digest(&f->ids);
    }
    return f->has_text ? XXH64_digest(&f->text) : 0;
}

static uint8_t flags_of(const struct call_end *end)
{
    return (uint8_t)((end->has_receipt ? SAMPLE_RECEIPT : 0) |
                     (end->leaked ? SAMPLE_LEAKED : 0) |
                     (end->n_resumes > 0 ? SAMPLE_RESUMED : 0) |
                     (end->chunks && end->n_output == 0 ? SAMPLE_CHUNKS : 0) |
                     (end->bad_stream ? SAMPLE_BAD_STREAM : 0));
}

void flight_end(struct flight *f, int64_t at_us, const struct call_end *end)
{
    struct sample *s = &f->sample;

    s->end_us = at_us;
    s->outcome = end->outcome;
    s->code = end->code;
    s->flags |= flags_of(end);
    s->queue_us = end->queue_us;
    s->n_prompt = end->n_prompt > 0 ? end->n_prompt : s->n_prompt;
    s->n_output = end->n_output > 0 ? end->n_output : s->n_output;
    s->n_cached = end->n_cached;
    s->n_moves = end->n_moves;
    s->n_resumes = end->n_resumes;
    s->gap_us = end->gap_us;
    s->output_hash = hash_of(f);
    if (end->outcome != OUTCOME_OK && end->why != NULL) {
        snprintf(s->why, sizeof s->why, "%s", end->why);
    }
}

void flight_clear(struct flight *f)
{
    if (f->gaps_size > FLIGHT_GAPS_KEPT ||
        f->output_size > FLIGHT_OUTPUT_KEPT) {
        flight_fini(f);
    }
}

void flight_fini(struct flight *f)
{
    free(f->gaps);
    f->gaps = NULL;
    f->gaps_size = 0;
    free(f->output);
    f->output = NULL;
    f->n_output = f->output_size = 0;
}
