#include "common/model/mtp.h"

#include <stdio.h>

#include "common/model/directory.h"

/* Returns whether the MTP layer shares embedding and head with the model, as
 * the computation needs. */
static bool shares_ends(const struct checkpoint *files)
{
    static const char *const own[] = {"mtp.embed_tokens.weight",
                                      "mtp.lm_head.weight"};

    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        if (checkpoint_find(files, own[i]) != NULL) {
            return false;
        }
    }
    return true;
}

/* Returns why the declared MTP layer cannot be used, or NULL. */
static const char *obstacle(const struct mtp_found *m,
                            const struct model_config *c,
                            const struct checkpoint *files)
{
    if (files != NULL && files->gguf) {
        return "which is not read";
    }
    if (c->shape.n_heads == 0) {
        return "but the model has no attention layer";
    }
    if (c->shape.window > 0) {
        return "but the model has sliding windows, which is not supported";
    }
    if (files == NULL) {
        return NULL;
    }
    if (m->n_tensors == 0) {
        return "but the weights are not there";
    }
    return shares_ends(files) ? NULL
                              : "but with its own embedding or head, which is "
                                "not supported";
}

void mtp_find(struct mtp_found *out, const struct model_config *c,
              const struct checkpoint *files)
{
    const char *by =
        files != NULL && files->gguf ? "the GGUF file" : "config.json";
    const char *why;

    *out = (struct mtp_found){
        .n_tensors = files != NULL ? checkpoint_count_mtp(files) : 0};
    if (c->n_mtp == 0) {
        snprintf(out->text, sizeof out->text,
                 "%s declares no MTP layer: no drafts", by);
        return;
    }
    if (c->n_mtp > 1) {
        snprintf(out->text, sizeof out->text,
                 "%s declares %u MTP layers, only one is computed: no drafts",
                 by, c->n_mtp);
        return;
    }
    why = obstacle(out, c, files);
    out->usable = why == NULL;
    if (why != NULL) {
        snprintf(out->text, sizeof out->text,
                 "%s declares an MTP layer, %s: no drafts", by, why);
    } else if (files == NULL) {
        snprintf(out->text, sizeof out->text, "drafts: 1 layer");
    } else {
        snprintf(out->text, sizeof out->text, "drafts: 1 layer, %u tensors",
                 out->n_tensors);
    }
}

enum status mtp_find_in(struct mtp_found *out, const struct model_config *c,
                        const char *dir, struct error *e)
{
    struct checkpoint *files = NULL;
    bool found;
    enum status st = directory_weights(dir, &found, e);

    if (st == ST_OK && found) {
        st = checkpoint_open(&files, dir, e);
    }
    if (st == ST_OK && found) {
        st = checkpoint_add_mtp(files, e);
    }
    if (st == ST_OK) {
        mtp_find(out, c, files);
    }
    checkpoint_close(&files);
    return st;
}
