/* text_job.c - Jobs, which all seams share. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "router/text/text_seam.h"
#include "text/detokenizer.h"
#include "text/encoding.h"
#include "text/tokenizer.h"

struct text_job *text_job_new(enum text_job_kind kind, uint64_t tag)
{
    struct text_job *j = calloc(1, sizeof *j);

    if (j != NULL) {
        j->kind = kind;
        j->tag = tag;
    }
    return j;
}

bool text_job_put(struct text_job *j, const uint8_t *text, size_t n)
{
    j->text = malloc(n + 1);
    if (j->text == NULL) {
        return false;
    }
    if (n > 0) {
        memcpy(j->text, text, n);
    }
    j->n_text = n;
    return true;
}

void text_job_free(struct text_job **j)
{
    if (*j != NULL) {
        encoding_free(&(*j)->encoding);
        free((*j)->text);
        free((*j)->ids);
        free(*j);
        *j = NULL;
    }
}

static enum status begin(const struct tokenizer *t, struct text_job *j)
{
    struct encoding_input in = {
        .text = j->text,
        .len = j->n_text,
        .flags = TOKENIZE_ADD_SPECIAL |
                 (j->parse_special ? TOKENIZE_PARSE_SPECIAL : 0),
        .max_ids = j->max_ids};

    return encoding_new(&j->encoding, t, &in, &j->error);
}

static bool encode(const struct tokenizer *t, struct text_job *j, size_t bytes)
{
    bool done = false;

    j->status = j->encoding == NULL ? begin(t, j) : ST_OK;
    if (j->status == ST_OK) {
        j->status = encoding_step(j->encoding, bytes, &done, &j->error);
    }
    if (j->status == ST_OK && !done) {
        return false;
    }
    if (j->status == ST_OK) {
        j->ids = encoding_take(j->encoding, &j->n_ids);
    } else if (j->encoding != NULL) {
        j->over = encoding_is_over(j->encoding);
    }
    encoding_free(&j->encoding);
    return true;
}

static enum status decode(const struct tokenizer *t, struct text_job *j)
{
    struct detokenizer d;
    size_t most = detokenizer_max(t), n = 0, cap = most;
    char *text;

    /* Two passes over the ids: the sum of their lengths is usually far below
     * n_ids times the longest token.  All ids are checked before any text is
     * made. */
    for (size_t i = 0; i < j->n_ids; i++) {
        size_t bytes = 0;

        if (tokenizer_token(t, j->ids[i], &bytes) == NULL) {
            return error_set(&j->error, ST_INVALID_ARGUMENT,
                             "ids[%zu] is %u, which is not a token of the "
                             "vocabulary",
                             i, j->ids[i]);
        }
        cap += 3 * bytes; /* an invalid byte becomes U+FFFD, 3 bytes */
    }
    /* Every push may write up to `most` bytes from its start. */
    text = malloc(cap + most);
    if (text == NULL) {
        return error_set(&j->error, ST_RESOURCE_EXHAUSTED,
                         "no memory for the text of %zu ids", j->n_ids);
    }
    detokenizer_init(&d, t, 0);
    for (size_t i = 0; i < j->n_ids; i++) {
        n += detokenizer_push(&d, j->ids[i], text + n);
    }
    n += detokenizer_finish(&d, text + n);
    assert(n <= cap + most);
    free(j->text);
    j->text = text;
    j->n_text = n;
    return ST_OK;
}

bool text_job_step(struct text_job *j, const struct tokenizer *t, size_t bytes)
{
    if (j->kind == TEXT_ENCODE) {
        return encode(t, j, bytes);
    }
    j->status = decode(t, j);
    return true;
}
