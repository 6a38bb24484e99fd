#pragma once
/* gRPC on unix sockets: what servers and clients (net/grpc_server.h, net/grpc_client.h) share. On
 * gRPC core's C surface, none of whose words leave these three headers.
 *
 * One struct gs_grpc serves all servers and clients of a loop. gRPC core works in a thread of it,
 * which hands over what happened; every callback comes from the loop. Of gRPC core's own threads
 * see docs/performance.md.
 * Messages are bytes: what they mean is the caller's.
 * Threads  the loop's. Signals are blocked in the other threads. */

#include "core/cleanup.h"

struct gs_grpc;
struct gs_loop;

/** @loop  borrowed; outlives it.
 *  Returns  0; -ENOMEM; what pthread_create said. */
GS_WUR int gs_grpc_new(struct gs_loop *loop, struct gs_grpc **ret_grpc);
/** After its servers and clients are freed. Not from inside a callback of them. Accepts NULL;
 *  returns NULL. */
struct gs_grpc *gs_grpc_free(struct gs_grpc *grpc);
void gs_grpc_free_p(struct gs_grpc **grpc);

/** The table net/grpc_status.def, both ways. @rc 0 or a negative errno. */
int gs_grpc_status_of(int rc);
/** Numbers that gRPC does not know are as UNKNOWN. Returns 0 or a negative errno. */
int gs_grpc_rc_of(int status);
/** "UNAVAILABLE"; "UNKNOWN" for numbers that gRPC does not know. */
const char *gs_grpc_status_name(int status);
