/* mtp.h - Whether a model can draft with its own MTP layer.
 *
 * It can if config.json declares one MTP layer, the model has attention layers,
 * whose form the MTP layer shares, and no window layers, and its weights are
 * there: in the model's files or in a companion (checkpoint.h).  An MTP layer
 * with an embedding or a head of its own is not supported, nor are those of
 * GGUF files.  A model without any weights is taken for one that has them all.
 *
 * The answer is found before config.drafts is set; shard_load() then checks
 * each tensor.
 *
 * Threading: none.  Memory: none of its own. */
#ifndef COMMON_MODEL_MTP_H
#define COMMON_MODEL_MTP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/model/checkpoint.h"
#include "common/model/config.h"

struct mtp_found {
    bool usable;        /* config.drafts may be set */
    uint32_t n_tensors; /* the MTP layer has in the files */
    char text[128];     /* for people: "drafts: 1 layer, 15 tensors" */
};

/* Looks for the MTP layer of c among the tensors of files, to which
 * checkpoint_add_mtp() has added the companion.  files NULL: the model has no
 * weights. */
void mtp_find(struct mtp_found *out, const struct model_config *c,
              const struct checkpoint *files);

/* Does that in a model's directory, of which it reads the headers.  Errors:
 * those of checkpoint_open() and checkpoint_add_mtp(). */
MUST_CHECK enum status mtp_find_in(struct mtp_found *out,
                                   const struct model_config *c,
                                   const char *dir, struct error *e);

#endif
