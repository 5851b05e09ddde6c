#include "client/load/drive/drive_limits.h"

#include "client/load/drive/crew.h"
#include "client/load/drive/flight.h"
#include "client/load/drive/generator.h"
#include "client/load/drive/http_answer.h"
#include "client/load/drive/http_reply.h"
#include "client/load/drive/http_scan.h"
#include "client/load/drive/http_url.h"
#include "client/load/drive/outputs.h"
#include "client/load/drive/tree.h"

const struct limit_row drive_limits[] = {
    LIMIT_ROW(CREW_MAX, "processes", "--processes"),
    LIMIT_ROW(CREW_PIPE_BYTES, "bytes", "samples that wait in a process"),
    LIMIT_ROW(GENERATOR_AHEAD_MAX, "sessions", "read ahead by a process"),
    LIMIT_ROW(GENERATOR_SPARE_MAX, "sessions", "read ahead in a closed loop"),
    LIMIT_ROW(FLIGHT_GAPS_MAX, "gaps", "kept of a request"),
    LIMIT_ROW(FLIGHT_OUTPUT_MAX, "bytes",
              "of an output whose tokens --tokenizer counts"),
    LIMIT_ROW(TREE_ANSWER_MAX, "ids or bytes", "an answer, for the next turn"),
    LIMIT_ROW(OUTPUTS_MAX, "outputs", "--check-outputs"),
    LIMIT_ROW(HTTP_URL_MAX, "bytes", "--target"),
    LIMIT_ROW(HTTP_HEAD_MAX, "bytes", "the head of an HTTP response"),
    LIMIT_ROW(HTTP_BODY_MAX, "bytes", "a whole answer"),
    LIMIT_ROW(SCAN_DEPTH_MAX, "levels", "JSON of an answer"),
};

const size_t drive_limits_n = sizeof drive_limits / sizeof drive_limits[0];
