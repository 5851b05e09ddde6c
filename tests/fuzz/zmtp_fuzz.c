/* Bytes of a ZMTP connection: the verdict does not depend on how they are
 * split, and no message that libzmq would see has several frames or is too
 * long.  The first byte is the size of the pieces. */
#include "common/wire/zmtp_scan.h"
#include "tests/fuzz/fuzz.h"

#define LONGEST 1000

static struct zmtp_scan run(const uint8_t *data, size_t n, size_t piece)
{
    struct zmtp_scan s;

    zmtp_scan_init(&s);
    for (size_t at = 0; at < n; at += piece) {
        size_t part = n - at < piece ? n - at : piece;

        if (zmtp_scan(&s, data + at, part, LONGEST) != ZMTP_FINE) {
            break;
        }
    }
    return s;
}

/* Reads frames the slow way.  Returns whether all of them are allowed. */
static bool is_allowed(const uint8_t *data, size_t n)
{
    size_t at = 64;

    while (at < n) {
        uint8_t flags = data[at];
        size_t wide = (flags & 2) != 0 ? 8 : 1;
        uint64_t bytes = 0;

        if ((flags & 1) != 0 || flags > 7) {
            return false;
        }
        if (n - at < 1 + wide) {
            return true;
        }
        for (size_t i = 1; i <= wide; i++) {
            bytes = bytes << 8 | data[at + i];
        }
        if ((flags & 4) != 0 ? bytes == 0 || bytes > ZMTP_COMMAND_MAX
                             : bytes > LONGEST) {
            return false;
        }
        at += 1 + wide;
        at = bytes < n - at ? at + (size_t)bytes : n;
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct zmtp_scan whole, split;

    if (n < 2) {
        return 0;
    }
    whole = run(data + 1, n - 1, n);
    split = run(data + 1, n - 1, (size_t)data[0] % 16 + 1);
    FUZZ_CHECK(whole.fault == split.fault);
    FUZZ_CHECK(whole.spoke == split.spoke);
    if (whole.greeted) {
        FUZZ_CHECK((whole.fault == ZMTP_FINE) == is_allowed(data + 1, n - 1));
    }
    return 0;
}
