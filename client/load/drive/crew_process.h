/* crew_process.h - One generator process, and what it exchanges with its
 * parent.
 *
 *   process -> parent   READY | ERROR, then (SAMPLE | PULSE)*, DONE | ERROR
 *   parent -> process   BEGIN, then STOP and STOP_AT_ONCE at any time
 *
 * The process writes struct pipe_record and the payload, the parent struct
 * crew_order.
 *
 * Threading: the process has one thread.  Memory: the process's own. */
#ifndef CLIENT_LOAD_DRIVE_CREW_PROCESS_H
#define CLIENT_LOAD_DRIVE_CREW_PROCESS_H

#include <sys/types.h>

#include "client/load/drive/crew.h"
#include "client/load/drive/pipe_writer.h"

enum crew_record {
    CREW_READY,
    CREW_SAMPLE, /* struct sample and its gaps */
    CREW_PULSE,  /* struct pulse */
    CREW_DONE,
    CREW_ERROR /* struct error */
};

enum crew_order_kind { CREW_BEGIN, CREW_STOP, CREW_STOP_AT_ONCE };

struct crew_order {
    int64_t kind, at_us; /* BEGIN: the monotonic time of the run's time 0 */
};

/* Runs share `index` in a process that was just forked from parent.  out: the
 * pipe, in: the socket. */
_Noreturn void crew_process(const struct crew_options *o, uint32_t index,
                            pid_t parent, int out, int in);

#endif
