/* Key files: any bytes are refused with a sentence, or give tenants that can be
 * used; a reload with the same text finds the same keys. */
#include "gateway/keys/keys.h"
#include "tests/fuzz/fuzz.h"

/* One use of all tenants. */
struct pass {
    size_t n;
    int64_t now_us;
};

static void use(void *arg, struct tenant *t)
{
    struct pass *pass = arg;
    struct tenant_refusal r;

    pass->n++;
    FUZZ_CHECK(tenant_name(t)[0] != '\0');
    /* One request in a minute fits any limit. */
    FUZZ_CHECK(tenant_begin(t, pass->now_us, 1000, &r));
    tenant_end(t, pass->now_us, 1000, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const char *text = (const char *)data;
    struct error e = {0};
    struct keys *k;
    struct pass first = {0}, second = {.now_us = 60000000};
    size_t n_keys;

    if (keys_parse(&k, text, n, &e) != ST_OK) {
        FUZZ_CHECK(k == NULL && e.text[0] != '\0');
        return 0;
    }
    n_keys = keys_n(k);
    FUZZ_CHECK(n_keys >= 1 && n_keys <= KEYS_MAX);
    keys_each_tenant(k, use, &first);
    FUZZ_CHECK(first.n >= 1 && first.n <= n_keys);
    FUZZ_CHECK(keys_replace(k, text, n, &e) == ST_OK);
    keys_each_tenant(k, use, &second);
    FUZZ_CHECK(second.n == first.n && keys_n(k) == n_keys);
    keys_free(&k);
    return 0;
}
