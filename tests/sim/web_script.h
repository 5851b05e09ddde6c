/* web_script.h - The bytes of requests over HTTP. */
#ifndef SIM_WEB_SCRIPT_H
#define SIM_WEB_SCRIPT_H

#include "tests/sim/request.h"
#include "tests/sim/web.h"

/* Draws a request and appends its bytes to the connection's script. */
void web_script_add(struct web_conn *c);

/* Returns letter i of a prompt, whatever its ids are. */
char web_letter(const struct sim_request *request, uint32_t i);

#endif
