#include "common/wire/method.h"

#include <stddef.h>

#include "common/wire/frame.h"
#include "proto/admin.pb-c.h"
#include "proto/common.pb-c.h"
#include "proto/health.pb-c.h"
#include "proto/inference.pb-c.h"
#include "proto/registry.pb-c.h"
#include "proto/stage.pb-c.h"
#include "proto/transfer.pb-c.h"
#include "proto/worker.pb-c.h"

enum row_index {
#define X(name, ...) ROW_##name,
    METHOD_MAP(X)
#undef X
        ROW_NR
};

static const struct method_row rows[ROW_NR] = {
#define X(id, no, svc, meth, req, rep, mkind, by, at, reqcap, repcap, mlane, \
          is_built, tcap)                                                    \
    [ROW_##id] = {                                                           \
        .name = "/sluice.v1." #svc "/" #meth,                                \
        .service = #svc,                                                     \
        .method = #meth,                                                     \
        .request = &sluice__v1__##req##__descriptor,                         \
        .reply = &sluice__v1__##rep##__descriptor,                           \
        .request_cap = reqcap,                                               \
        .reply_cap = repcap,                                                 \
        .number = no,                                                        \
        .callers = by,                                                       \
        .servers = at,                                                       \
        .kind = mkind,                                                       \
        .lane = mlane,                                                       \
        .built = is_built,                                                   \
        .tensor_cap = tcap,                                                  \
    },
    METHOD_MAP(X)
#undef X
};

const struct method_row *method_find(uint16_t number)
{
    switch (number) {
#define X(id, no, ...) \
    case no:           \
        return &rows[ROW_##id];
        METHOD_MAP(X)
#undef X
    default:
        return NULL;
    }
}

const struct method_row *method_at(unsigned i)
{
    return i < ROW_NR ? &rows[i] : NULL;
}
