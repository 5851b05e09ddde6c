#include "common/model/ffn.h"

const struct ffn *const ffn_rows[FFN_KINDS] = {
#define FFN(kind, row) [FFN_##kind] = &ffn_##row,
#include "common/model/ffn_list.h"
#undef FFN
};
