#include "common/common_limits.h"

#include "common/base/option.h"
#include "common/sampling/sampling.h"
#include "common/split/layer_split.h"
#include "common/wire/endpoint.h"
#include "common/wire/frame.h"
#include "common/wire/frame_spare.h"
#include "common/wire/link.h"
#include "common/wire/peer.h"
#include "common/wire/session.h"

const struct limit_row common_limits[] = {
    LIMIT_ROW(FRAME_BYTES_MAX, "bytes", "a frame without its tensor"),
    LIMIT_ROW(FRAME_TENSOR_MAX, "bytes", "the tensor of a frame"),
    LIMIT_ROW(FRAME_ENVELOPES_MAX, "", "envelopes in a frame"),
    LIMIT_ROW(FRAME_SPARE_BYTES, "bytes", "of freed frames kept, of one size"),
    LIMIT_ROW(FRAME_SPARE_MAX, "frames",
              "that are freed and kept, of one size"),
    LIMIT_ROW(LINK_RING_FRAMES, "frames", "sent and not acknowledged"),
    LIMIT_ROW(LINK_RING_BYTES, "bytes", "sent and not acknowledged"),
    LIMIT_ROW(LINK_OUTBOX_BYTES, "bytes", "waiting in one lane to a peer"),
    LIMIT_ROW(LINK_TENSORS_MAX, "tensors", "waiting to a stage"),
    LIMIT_ROW(LINK_SUBMIT_WINDOW, "bytes", "of Submit not acknowledged"),
    LIMIT_ROW(LINK_RESEND_US, "us", "until a frame is sent again"),
    LIMIT_ROW(LINK_RESEND_MAX_US, "us", "the longest such wait"),
    LIMIT_ROW(PEER_CALLS_MAX, "calls", "open each way with one peer"),
    LIMIT_ROW(PEER_STRIKES, "frames", "that break a rule end a session"),
    LIMIT_ROW(ARENA_SLACK, "bytes", "of memory for a message, beside 4 a byte"),
    LIMIT_ROW(SESSION_HELLO_TRIES, "", "of Hello on a connection"),
    LIMIT_ROW(SESSION_QUIET_US, "us", "without a frame: is the router there?"),
    LIMIT_ROW(SESSION_SILENT_US, "us", "without a frame: the session is over"),
    LIMIT_ROW(SESSION_BACKOFF_MAX_US, "us", "the longest wait to reconnect"),
    LIMIT_ROW(TEMPERATURE_MAX, "", "temperature, from 0"),
    LIMIT_ROW(REPETITION_PENALTY_MAX, "", "repetition_penalty, from 0.01"),
    LIMIT_ROW(PENALTY_MAX, "", "presence_penalty, frequency_penalty, + or -"),
    LIMIT_ROW(LOGIT_BIAS_MAX, "", "a logit bias, + or -"),
    LIMIT_ROW(LOGIT_BIASES_MAX, "tokens", "with a bias in a request"),
    LIMIT_ROW(STOP_TOKENS_MAX, "tokens", "that end a request, its own"),
    LIMIT_ROW(TOP_LOGPROBS_MAX, "", "best tokens with each token"),
    LIMIT_ROW(STOP_STRINGS_MAX, "", "texts that end a request"),
    LIMIT_ROW(STOP_STRING_BYTES_MAX, "bytes", "of one of them"),
    LIMIT_ROW(ENDPOINT_MAX, "bytes", "an endpoint, its NUL included"),
    LIMIT_ROW(OPTION_LIST_MAX, "", "times an option may be repeated"),
    LIMIT_ROW(SPLIT_STAGES_MAX, "stages", "a model is split into"),
    LIMIT_ROW(SPLIT_LAYERS_MAX, "layers", "of a model that is split"),
    LIMIT_ROW(SPLIT_BYTES_MAX, "bytes", "of a layer, of a worker's budget"),
    LIMIT_ROW(CHOICES_MAX, "", "choices of a request"),
};

const size_t common_limits_n = sizeof common_limits / sizeof common_limits[0];
