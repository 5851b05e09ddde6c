/* method.h - Every method of every service: callers, sizes, lane.
 *
 * The messages are those of the schema in proto/; tests/wire compares these
 * rows with the schema.  Method numbers are part of the protocol and are
 * never reused (0x0407 is retired). */
#ifndef COMMON_WIRE_METHOD_H
#define COMMON_WIRE_METHOD_H

#include <stdbool.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#define BY_ROUTER 1u
#define BY_WORKER 2u
#define BY_CLIENT 4u
#define BY_ADMIN  8u
#define BY_ALL    15u

enum method_kind { UNARY, STREAM, ONEWAY };

/* Control goes before submit in the outbox; of state, only the newest message
 * of each method waits. */
enum lane { LANE_CONTROL, LANE_SUBMIT, LANE_STATE };

/* X(name, number, service, method, request, reply, kind, callers, servers,
 * request cap, reply cap, lane, built, tensor cap)
 *
 * Caps are bytes of the body.  A tensor cap of 0 means no tensor. */
#define METHOD_MAP(X)                                                          \
    X(REGISTRY_HELLO, 0x0101, Registry, Hello, hello_request, hello_reply,     \
      UNARY, BY_WORKER | BY_CLIENT | BY_ADMIN, BY_ROUTER | BY_WORKER, 16384,   \
      4096, LANE_CONTROL, true, 0)                                             \
    X(REGISTRY_REPORT, 0x0102, Registry, Report, report_message, nothing,      \
      ONEWAY, BY_WORKER, BY_ROUTER, 1024, 0, LANE_STATE, true, 0)              \
    X(REGISTRY_STEP_OUTPUT, 0x0103, Registry, StepOutput, step_output_message, \
      nothing, ONEWAY, BY_WORKER, BY_ROUTER, 262144, 0, LANE_STATE, true, 0)   \
    X(REGISTRY_GOODBYE, 0x0104, Registry, Goodbye, goodbye_message, nothing,   \
      ONEWAY, BY_ALL, BY_ALL, 1024, 0, LANE_STATE, true, 0)                    \
    X(REGISTRY_LIVE, 0x0105, Registry, Live, live_message, nothing, ONEWAY,    \
      BY_WORKER, BY_ROUTER, 65536, 0, LANE_CONTROL, true, 0)                   \
    X(REGISTRY_LEAVE, 0x0106, Registry, Leave, leave_request, drain_reply,     \
      UNARY, BY_WORKER, BY_ROUTER, 64, 64, LANE_CONTROL, true, 0)              \
    X(REGISTRY_BROKEN, 0x0107, Registry, Broken, broken_message, nothing,      \
      ONEWAY, BY_WORKER, BY_ROUTER, 1024, 0, LANE_CONTROL, true, 0)            \
    X(REGISTRY_INDEX, 0x0108, Registry, Index, index_message, nothing, ONEWAY, \
      BY_WORKER, BY_ROUTER, 32768, 0, LANE_CONTROL, true, 0)                   \
    X(INFERENCE_GENERATE, 0x0201, Inference, Generate, generate_request,       \
      generate_chunk, STREAM, BY_CLIENT | BY_ADMIN, BY_ROUTER, 1048576,        \
      131072, LANE_CONTROL, true, 0)                                           \
    X(INFERENCE_CANCEL, 0x0202, Inference, Cancel, cancel_request, receipt,    \
      UNARY, BY_CLIENT | BY_ADMIN, BY_ROUTER, 256, 1024, LANE_CONTROL, true,   \
      0)                                                                       \
    X(INFERENCE_REMOVE, 0x0203, Inference, RemoveSequence, remove_request,     \
      receipt, UNARY, BY_CLIENT | BY_ADMIN, BY_ROUTER, 256, 1024,              \
      LANE_CONTROL, true, 0)                                                   \
    X(INFERENCE_TOKENIZE, 0x0204, Inference, Tokenize, tokenize_request,       \
      tokenize_reply, UNARY, BY_CLIENT | BY_ADMIN, BY_ROUTER, 1048576,         \
      1048576, LANE_CONTROL, true, 0)                                          \
    X(INFERENCE_DETOKENIZE, 0x0205, Inference, Detokenize, detokenize_request, \
      detokenize_reply, UNARY, BY_CLIENT | BY_ADMIN, BY_ROUTER, 262144,        \
      1048576, LANE_CONTROL, true, 0)                                          \
    X(INFERENCE_LIST_MODELS, 0x0206, Inference, ListModels,                    \
      list_models_request, list_models_reply, UNARY, BY_CLIENT | BY_ADMIN,     \
      BY_ROUTER, 16, 32768, LANE_CONTROL, true, 0)                             \
    X(ADMIN_STATUS, 0x0301, Admin, Status, status_request, status_reply,       \
      UNARY, BY_ADMIN, BY_ROUTER, 16, 524288, LANE_CONTROL, true, 0)           \
    X(ADMIN_WATCH, 0x0302, Admin, Watch, watch_request, status_reply, STREAM,  \
      BY_ADMIN, BY_ROUTER, 64, 524288, LANE_CONTROL, true, 0)                  \
    X(ADMIN_LIST_WORKERS, 0x0303, Admin, ListWorkers, list_request,            \
      list_workers_reply, UNARY, BY_ADMIN, BY_ROUTER, 64, 65536, LANE_CONTROL, \
      true, 0)                                                                 \
    X(ADMIN_LIST_SEQUENCES, 0x0304, Admin, ListSequences, list_request,        \
      list_sequences_reply, UNARY, BY_ADMIN, BY_ROUTER, 64, 65536,             \
      LANE_CONTROL, true, 0)                                                   \
    X(ADMIN_CANCEL, 0x0305, Admin, CancelSequence, cancel_request, receipt,    \
      UNARY, BY_ADMIN, BY_ROUTER, 256, 1024, LANE_CONTROL, true, 0)            \
    X(ADMIN_REMOVE, 0x0306, Admin, RemoveSequence, remove_request, receipt,    \
      UNARY, BY_ADMIN, BY_ROUTER, 256, 1024, LANE_CONTROL, true, 0)            \
    X(ADMIN_DRAIN, 0x0307, Admin, Drain, drain_request, drain_reply, UNARY,    \
      BY_ADMIN, BY_ROUTER, 256, 64, LANE_CONTROL, true, 0)                     \
    X(ADMIN_UNDRAIN, 0x0308, Admin, Undrain, worker_request, nothing, UNARY,   \
      BY_ADMIN, BY_ROUTER, 256, 16, LANE_CONTROL, true, 0)                     \
    X(ADMIN_AUDIT, 0x0309, Admin, Audit, nothing, audit_all_reply, UNARY,      \
      BY_ADMIN, BY_ROUTER, 16, 262144, LANE_CONTROL, true, 0)                  \
    X(ADMIN_EXPLAIN, 0x030a, Admin, Explain, explain_request, explain_reply,   \
      UNARY, BY_ADMIN, BY_ROUTER, 256, 16384, LANE_CONTROL, true, 0)           \
    X(WORKER_ASSEMBLE, 0x0401, Worker, Assemble, assemble_request, nothing,    \
      UNARY, BY_ROUTER, BY_WORKER, 1024, 16, LANE_CONTROL, true, 0)            \
    X(WORKER_SUBMIT, 0x0402, Worker, Submit, submit_request, nothing, UNARY,   \
      BY_ROUTER, BY_WORKER, 65536, 16, LANE_SUBMIT, true, 0)                   \
    X(WORKER_SUBMIT_PART, 0x0403, Worker, SubmitPart, submit_part_message,     \
      nothing, ONEWAY, BY_ROUTER, BY_WORKER, 65536, 0, LANE_SUBMIT, true, 0)   \
    X(WORKER_ACKNOWLEDGE, 0x0404, Worker, Acknowledge, acknowledge_message,    \
      nothing, ONEWAY, BY_ROUTER, BY_WORKER, 65536, 0, LANE_STATE, true, 0)    \
    X(WORKER_CANCEL, 0x0405, Worker, Cancel, cancel_request, receipt, UNARY,   \
      BY_ROUTER, BY_WORKER, 256, 1024, LANE_CONTROL, true, 0)                  \
    X(WORKER_REMOVE, 0x0406, Worker, RemoveSequence, remove_request, receipt,  \
      UNARY, BY_ROUTER, BY_WORKER, 256, 1024, LANE_CONTROL, true, 0)           \
    X(WORKER_AUDIT, 0x0408, Worker, Audit, nothing, audit_reply, UNARY,        \
      BY_ROUTER, BY_WORKER, 16, 8192, LANE_CONTROL, true, 0)                   \
    X(WORKER_DISOWN, 0x0409, Worker, Disown, disown_message, nothing, ONEWAY,  \
      BY_ROUTER, BY_WORKER, 65536, 0, LANE_CONTROL, true, 0)                   \
    X(WORKER_ASSIGN, 0x040a, Worker, Assign, assign_request, nothing, UNARY,   \
      BY_ROUTER, BY_WORKER, 64, 16, LANE_CONTROL, true, 0)                     \
    X(WORKER_INDEX_SNAPSHOT, 0x040b, Worker, IndexSnapshot, nothing, nothing,  \
      ONEWAY, BY_ROUTER, BY_WORKER, 16, 0, LANE_CONTROL, true, 0)              \
    X(STAGE_OPEN, 0x0501, Stage, Open, stage_open, nothing, ONEWAY, BY_WORKER, \
      BY_WORKER, 65536, 0, LANE_CONTROL, true, 0)                              \
    X(STAGE_FORWARD, 0x0502, Stage, Forward, stage_forward, nothing, ONEWAY,   \
      BY_WORKER, BY_WORKER, 131072, 0, LANE_CONTROL, true, FRAME_TENSOR_MAX)   \
    X(STAGE_RESULT, 0x0503, Stage, Result, stage_result, nothing, ONEWAY,      \
      BY_WORKER, BY_WORKER, 131072, 0, LANE_CONTROL, true, 0)                  \
    X(STAGE_REMOVE, 0x0504, Stage, Remove, stage_remove, nothing, ONEWAY,      \
      BY_WORKER, BY_WORKER, 1024, 0, LANE_CONTROL, true, 0)                    \
    X(STAGE_OPEN_PART, 0x0505, Stage, OpenPart, stage_open_part, nothing,      \
      ONEWAY, BY_WORKER, BY_WORKER, 65536, 0, LANE_CONTROL, true, 0)           \
    X(STAGE_GEOMETRY, 0x0506, Stage, Geometry, stage_geometry, nothing,        \
      ONEWAY, BY_WORKER, BY_WORKER, 1024, 0, LANE_CONTROL, true, 0)            \
    X(STAGE_RESTORE, 0x0507, Stage, Restore, stage_restore, nothing, ONEWAY,   \
      BY_WORKER, BY_WORKER, 256, 0, LANE_CONTROL, true, 0)                     \
    X(STAGE_KEEP, 0x0508, Stage, Keep, stage_keep, nothing, ONEWAY, BY_WORKER, \
      BY_WORKER, 32768, 0, LANE_CONTROL, true, 0)                              \
    X(STAGE_GONE, 0x0509, Stage, Gone, stage_gone, nothing, ONEWAY, BY_WORKER, \
      BY_WORKER, 32768, 0, LANE_CONTROL, true, 0)                              \
    X(STAGE_ACCEPT, 0x050a, Stage, Accept, stage_accept, nothing, ONEWAY,      \
      BY_WORKER, BY_WORKER, 16384, 0, LANE_CONTROL, true, 0)                   \
    X(TRANSFER_OPEN, 0x0601, Transfer, Open, transfer_open, nothing, UNARY,    \
      BY_WORKER, BY_WORKER, 1024, 16, LANE_CONTROL, false, 0)                  \
    X(TRANSFER_CHUNK, 0x0602, Transfer, Chunk, transfer_chunk, nothing, UNARY, \
      BY_WORKER, BY_WORKER, 1024, 16, LANE_CONTROL, false, 0)                  \
    X(TRANSFER_DONE, 0x0603, Transfer, Done, transfer_done, nothing, UNARY,    \
      BY_WORKER, BY_WORKER, 1024, 16, LANE_CONTROL, false, 0)                  \
    X(HEALTH_CHECK, 0x0701, Health, Check, nothing, health_reply, UNARY,       \
      BY_ALL, BY_ALL, 16, 1024, LANE_CONTROL, true, 0)                         \
    X(HEALTH_WATCH, 0x0702, Health, Watch, nothing, health_reply, STREAM,      \
      BY_ALL, BY_ALL, 16, 1024, LANE_CONTROL, false, 0)

/* The number is also the method's name inside the programs. */
enum method {
    METHOD_NONE = 0,
#define X(name, number, ...) METHOD_##name = number,
    METHOD_MAP(X)
#undef X
};

struct method_row {
    const char *name; /* "/sluice.v1.Worker/Submit" */
    const char *service, *method;
    const ProtobufCMessageDescriptor *request, *reply;
    uint32_t request_cap, reply_cap;
    uint16_t number;
    uint8_t callers, servers; /* sets of BY_* */
    enum method_kind kind;
    enum lane lane;
    bool built; /* false: calls are answered UNIMPLEMENTED */
    uint32_t tensor_cap;
};

/* Finds a method by number, NULL if there is none. */
const struct method_row *method_find(uint16_t number);

/* Returns row i of METHOD_MAP, NULL past the last row. */
const struct method_row *method_at(unsigned i);

#endif
