#include "client/load/drive/http_wire.h"
const struct http_wire_ops http_curl = {0};
