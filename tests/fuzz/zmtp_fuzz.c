/* Bytes of a ZMTP connection: the verdict does not depend on how they are
 * split, and no message that libzmq would see has several frames or is too
 * long.  The first byte is the size of the pieces, and of a port with
 * keys its highest bit is set. */
#include "common/wire/zmtp_scan.h"
#include "tests/fuzz/fuzz.h"

#define LONGEST 1000

static struct zmtp_scan run(const uint8_t *data, size_t n, size_t piece,
                            bool curve)
{
    struct zmtp_scan s;

    zmtp_scan_init(&s, curve);
    for (size_t at = 0; at < n; at += piece) {
        size_t part = n - at < piece ? n - at : piece;

        if (zmtp_scan(&s, data + at, part, LONGEST) != ZMTP_FINE) {
            break;
        }
    }
    return s;
}

/* Frame number i of a peer with a key. */
static bool is_curve(unsigned i, uint8_t flags, uint64_t bytes)
{
    if (i < 2) {
        return (flags & 4) != 0 &&
               (i == 0 ? bytes == ZMTP_HELLO
                       : bytes >= ZMTP_INITIATE &&
                             bytes <= ZMTP_INITIATE + ZMTP_METADATA);
    }
    return (flags & 4) == 0 && bytes >= ZMTP_MESSAGE_MIN + ZMTP_CURVE &&
           bytes <= LONGEST + ZMTP_CURVE;
}

static bool is_plain(uint8_t flags, uint64_t bytes)
{
    return (flags & 4) != 0 ? bytes > 0 && bytes <= ZMTP_COMMAND_MAX
                            : bytes <= LONGEST;
}

/* Reads frames the slow way.  Returns whether all of them are allowed. */
static bool is_allowed(const uint8_t *data, size_t n, bool curve)
{
    size_t at = 64;

    for (unsigned i = 0; at < n; i++) {
        uint8_t flags = data[at];
        size_t wide = (flags & 2) != 0 ? 8 : 1;
        uint64_t bytes = 0;

        if ((flags & 1) != 0 || flags > 7 ||
            (curve && ((flags & 4) != 0) != (i < 2))) {
            return false;
        }
        if (n - at < 1 + wide) {
            return true;
        }
        for (size_t k = 1; k <= wide; k++) {
            bytes = bytes << 8 | data[at + k];
        }
        if (curve ? !is_curve(i, flags, bytes) : !is_plain(flags, bytes)) {
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
    bool curve;

    if (n < 2) {
        return 0;
    }
    curve = (data[0] & 0x80) != 0;
    whole = run(data + 1, n - 1, n, curve);
    split = run(data + 1, n - 1, (size_t)data[0] % 16 + 1, curve);
    FUZZ_CHECK(whole.fault == split.fault);
    FUZZ_CHECK(whole.spoke == split.spoke);
    if (whole.greeted) {
        FUZZ_CHECK((whole.fault == ZMTP_FINE) ==
                   is_allowed(data + 1, n - 1, curve));
    }
    return 0;
}
