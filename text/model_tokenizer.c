#include "text/model_tokenizer.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/directory.h"
#include "common/model/gguf_model.h"
#include "text/gguf_tokenizer.h"

/* The hash of a tokenizer is that of its file, so the text is made, too. */
static enum status from_metadata(struct tokenizer **out, const struct gguf *g,
                                 struct error *e)
{
    json_t *root;
    char *text;
    enum status st = gguf_tokenizer_json(&root, g, e);

    if (st != ST_OK) {
        return st;
    }
    text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    if (text == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "no memory for a tokenizer");
    }
    st = tokenizer_parse(out, text, strlen(text), e);
    free(text);
    return st;
}

enum status model_tokenizer_load(struct tokenizer **out, const char *path,
                                 struct error *e)
{
    char file[PATH_MAX];
    struct error scratch;
    struct gguf_model m;
    bool found = false;
    enum status st;
    int n = snprintf(file, sizeof file, "%s/tokenizer.json", path);

    *out = NULL;
    e = e == NULL ? &scratch : e;
    if (n < 0 || (size_t)n >= sizeof file) {
        return error_set(e, ST_INVALID_ARGUMENT, "the path is too long");
    }
    if (directory_has(path, "tokenizer.json") || !gguf_files_exist(path)) {
        return tokenizer_load(out, file, e);
    }
    st = gguf_model_open(&m, path, &found, e);
    if (st == ST_OK && found) {
        st = from_metadata(out, &m.parts[0], e);
        if (st != ST_OK) {
            st = error_wrap(e, "%s/%s", m.files.dir, m.files.names[0]);
        }
    }
    gguf_model_fini(&m);
    return st;
}
