/* A chat reply from a server that may send anything: the text and the end are
 * the same however the bytes are split.  The first byte is the size of the
 * pieces. */
#include <string.h>

#include "client/front/reply.h"
#include "common/base/sse.h"
#include "tests/fuzz/fuzz.h"

struct run {
    struct reply reply;
    uint64_t hash; /* FNV-1a of the pieces */
};

static void on_piece(void *arg, enum reply_kind kind, const char *text,
                     size_t n)
{
    struct run *r = arg;

    r->hash = (r->hash ^ (uint64_t)kind) * UINT64_C(1099511628211);
    for (size_t i = 0; i < n; i++) {
        r->hash = (r->hash ^ (uint8_t)text[i]) * UINT64_C(1099511628211);
    }
}

static void on_event(void *arg, const char *data, size_t n)
{
    struct run *r = arg;

    FUZZ_CHECK(data[n] == '\0' && n <= SSE_EVENT_BYTES_MAX);
    reply_take(&r->reply, data, n, on_piece, r);
}

static void run(struct run *r, const char *text, size_t n, size_t piece)
{
    struct sse s = {0};

    *r = (struct run){.hash = UINT64_C(14695981039346656037)};
    for (size_t at = 0; at < n; at += piece) {
        size_t part = n - at < piece ? n - at : piece;

        FUZZ_CHECK(sse_push(&s, text + at, part, on_event, r) ||
                   n > SSE_EVENT_BYTES_MAX);
    }
    sse_fini(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const char *text = (const char *)data + 1;
    struct run whole, split;
    struct error e;
    char id[64];

    if (n < 2) {
        return 0;
    }
    run(&whole, text, n - 1, n);
    run(&split, text, n - 1, (size_t)data[0] % 16 + 1);
    FUZZ_CHECK(whole.hash == split.hash);
    FUZZ_CHECK(whole.reply.done == split.reply.done);
    FUZZ_CHECK(whole.reply.failed == split.reply.failed);
    FUZZ_CHECK(whole.reply.n_generated == split.reply.n_generated);
    FUZZ_CHECK(strcmp(whole.reply.finish, split.reply.finish) == 0);
    reply_error(500, text, n - 1, &e);
    FUZZ_CHECK(e.text[0] != '\0');
    if (reply_first_model(text, n - 1, id, sizeof id)) {
        FUZZ_CHECK(id[0] != '\0');
    }
    return 0;
}
