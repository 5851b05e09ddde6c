/* An HTTP response from a server that may send anything: output and end are the
 * same however the bytes are split.  The first byte is the size of the
 * pieces. */
#include <string.h>

#include "client/load/drive/http_answer.h"
#include "client/load/drive/http_reply.h"
#include "tests/fuzz/fuzz.h"

struct run {
    struct http_reply reply;
    struct http_answer answer;
    struct call_end end;
    uint64_t hash; /* FNV-1a of the output */
};

static void on_output(void *arg, uint32_t n, const char *text, size_t n_text)
{
    struct run *r = arg;

    r->hash = (r->hash ^ n) * UINT64_C(1099511628211);
    for (size_t i = 0; i < n_text; i++) {
        r->hash = (r->hash ^ (uint8_t)text[i]) * UINT64_C(1099511628211);
    }
}

static void on_head(void *arg, const struct http_reply *reply)
{
    struct run *r = arg;

    http_answer_head(&r->answer, reply->status, reply->streams);
}

static void on_body(void *arg, const char *bytes, size_t n)
{
    struct run *r = arg;

    http_answer_bytes(&r->answer, bytes, n);
}

static const struct http_reply_ops ops = {on_head, on_body};

static void run(struct run *r, const char *text, size_t n, size_t piece)
{
    bool stop = false;

    memset(r, 0, sizeof *r);
    http_reply_begin(&r->reply);
    http_answer_begin(&r->answer, 1, on_output, r);
    for (size_t at = 0; at < n; at += piece) {
        size_t part = n - at < piece ? n - at : piece;

        http_reply_push(&r->reply, text + at, part, &ops, r, &stop);
    }
    http_answer_end(&r->answer,
                    http_reply_close(&r->reply) ? NULL : "it was cut", &r->end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const char *text = (const char *)data + 1;
    static struct run whole, split;

    if (n < 2) {
        return 0;
    }
    run(&whole, text, n - 1, n);
    run(&split, text, n - 1, (size_t)data[0] % 16 + 1);
    FUZZ_CHECK(whole.hash == split.hash);
    FUZZ_CHECK(whole.reply.part == split.reply.part);
    FUZZ_CHECK(whole.end.outcome == split.end.outcome);
    FUZZ_CHECK(whole.end.code == split.end.code);
    FUZZ_CHECK((whole.end.why == NULL) == (whole.end.outcome == OUTCOME_OK));
    FUZZ_CHECK(whole.end.n_output == split.end.n_output);
    http_answer_fini(&whole.answer);
    http_answer_fini(&split.answer);
    return 0;
}
