/* Arbitrary bytes as a .safetensors file, as its header alone (with 64 bytes
 * of data to follow) and as an index.  Tensors of an accepted file must cover
 * it. */
#include <string.h>

#include "common/model/checkpoint.h"
#include "common/model/safetensors.h"
#include "fuzz.h"

static void check(const struct safetensors *s, uint64_t data_bytes)
{
    uint64_t at = 0;

    for (uint32_t i = 0; i < s->n; i++) {
        const struct safetensors_tensor *t = &s->tensors[i];

        FUZZ_CHECK(t->begin == at && t->end >= at && t->end <= data_bytes);
        FUZZ_CHECK(t->rank <= SAFETENSORS_RANK_MAX);
        FUZZ_CHECK(strlen(t->name) <= SAFETENSORS_NAME_MAX);
        FUZZ_CHECK(safetensors_dtype_name(t->dtype)[0] != '?');
        (void)checkpoint_key(t->name);
        at = t->end;
    }
    FUZZ_CHECK(at == data_bytes);
}

static void as_file(const uint8_t *data, size_t n)
{
    struct safetensors s;
    struct error e = {.code = ST_OK};

    if (safetensors_parse_file(&s, data, n, &e) == ST_OK) {
        check(&s, n - s.data);
        safetensors_fini(&s);
    } else {
        FUZZ_CHECK(e.code != ST_OK && e.text[0] != '\0');
    }
}

static void as_header(const uint8_t *data, size_t n)
{
    struct safetensors s;
    struct error e = {.code = ST_OK};

    if (safetensors_parse(&s, (const char *)data, n, 64, &e) == ST_OK) {
        check(&s, 64);
        safetensors_fini(&s);
    } else {
        FUZZ_CHECK(e.code != ST_OK && e.text[0] != '\0');
    }
}

static void as_index(const uint8_t *data, size_t n)
{
    struct safetensors_index x;
    struct error e = {.code = ST_OK};

    if (safetensors_index_parse(&x, (const char *)data, n, &e) == ST_OK) {
        for (uint32_t i = 0; i < x.n_files; i++) {
            FUZZ_CHECK(strchr(x.files[i], '/') == NULL);
            FUZZ_CHECK(x.files[i][0] != '.' && x.files[i][0] != '\0');
        }
        safetensors_index_fini(&x);
    } else {
        FUZZ_CHECK(e.code != ST_OK && e.text[0] != '\0');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    as_file(data, n);
    as_header(data, n);
    as_index(data, n);
    return 0;
}
