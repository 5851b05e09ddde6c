/* Arbitrary bytes as a GGUF file, whole and as a prefix of a longer one.
 * Tensors of an accepted file must follow each other inside it, and values
 * must be readable to their ends.  Its configuration, names of tensors and
 * tokenizer are made, too. */
#include <string.h>

#include "common/model/gguf_config.h"
#include "common/model/gguf_tensors.h"
#include "fuzz.h"
#include "text/gguf_tokenizer.h"

static void check_value(const struct gguf_value *v)
{
    size_t at = 0, n;
    uint64_t n_texts = 0;
    const char *text;
    int64_t whole;
    double real;

    FUZZ_CHECK(strlen(v->key) <= GGUF_NAME_MAX && v->key[0] != '\0');
    FUZZ_CHECK(v->type < GGUF_VALUES && v->type != GGUF_VALUE_ARRAY);
    FUZZ_CHECK(!gguf_whole(v, v->n, &whole) && !gguf_real(v, v->n, &real));
    if (v->n > 0) {
        (void)gguf_whole(v, v->n - 1, &whole);
        (void)gguf_real(v, v->n - 1, &real);
    }
    while (gguf_next_text(v, &at, &text, &n)) {
        FUZZ_CHECK((const unsigned char *)text + n <= v->at + v->bytes);
        n_texts++;
    }
    FUZZ_CHECK(v->type != GGUF_VALUE_STRING || n_texts == v->n);
}

static void check(const struct gguf *g, uint64_t file_bytes)
{
    uint64_t at = g->data;

    for (uint32_t i = 0; i < g->n_values; i++) {
        check_value(&g->values[i]);
        FUZZ_CHECK(gguf_find(g, g->values[i].key) == &g->values[i]);
    }
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        const struct gguf_tensor *t = &g->tensors[i];

        FUZZ_CHECK(g->data + t->offset >= at);
        at = g->data + t->offset + t->bytes;
        FUZZ_CHECK(at <= file_bytes);
        FUZZ_CHECK(gguf_type(t->type) != NULL);
        FUZZ_CHECK(t->rank >= 1 && t->rank <= GGUF_RANK_MAX);
    }
}

static void name_tensors(const struct gguf *g)
{
    struct error e = {.code = ST_OK};
    struct gguf_tensors t;
    struct gguf_arch a;

    if (gguf_arch_read(&a, g, &e) != ST_OK) {
        FUZZ_CHECK(e.text[0] != '\0');
        return;
    }
    FUZZ_CHECK(!a.hybrid || (a.k_heads > 0 && a.v_heads % a.k_heads == 0));
    if (gguf_tensors_make(&t, g, &a, &e) == ST_OK) {
        FUZZ_CHECK(t.n >= g->n_tensors);
        for (uint32_t i = 0; i < t.n; i++) {
            FUZZ_CHECK(t.infos[i].name[0] != '\0');
            FUZZ_CHECK(t.infos[i].end >= t.infos[i].begin);
        }
        gguf_tensors_fini(&t);
    }
}

static void use(struct gguf *g)
{
    char *names[] = {(char[]){"x.gguf"}};
    const struct gguf_model m = {
        .files = {.dir = (char[]){"/nowhere"}, .n = 1, .names = names},
        .parts = g};
    struct error e = {.code = ST_OK};
    struct model_config c;
    json_t *made = NULL;

    name_tensors(g);
    if (gguf_config(&c, &m, &e) != ST_OK) {
        FUZZ_CHECK(e.text[0] != '\0');
    }
    if (gguf_tokenizer_json(&made, g, &e) != ST_OK) {
        FUZZ_CHECK(made == NULL && e.text[0] != '\0');
    }
    json_decref(made);
    if (gguf_tokenizer_config(&made, g, &e) == ST_OK) {
        json_decref(made);
    }
}

static void parse(const uint8_t *data, size_t n, uint64_t file_bytes)
{
    struct error e = {.code = ST_OK};
    struct gguf g;
    size_t need = 0;

    if (gguf_parse(&g, data, n, file_bytes, &need, &e) == ST_OK) {
        check(&g, file_bytes);
        use(&g);
        gguf_fini(&g);
    } else {
        FUZZ_CHECK(e.code != ST_OK && e.text[0] != '\0');
        FUZZ_CHECK(e.code != ST_OUT_OF_RANGE || need > n);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    parse(data, n, n);
    parse(data, n, (uint64_t)n + 1000);
    return 0;
}
