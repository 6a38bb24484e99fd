#pragma once
/* gRPC core behind net/grpc.h: the queue of what it finished, for server and client.
 *
 * An operation is announced by gs_grpc_expect(), then given to gRPC core with itself as the tag;
 * its `fn` comes once, from the loop. Its memory stays until then. */

#include <stdbool.h>
#include <stddef.h>

#include <grpc/grpc.h>

struct gs_buf;
struct gs_grpc;
struct gs_loop;

/** @ok  what gRPC core says of the operation. */
typedef void gs_grpc_op_fn(void *user, bool ok);

/** Counts what is on its way for one server or client. */
struct gs_grpc_owner {
    size_t pending; /**< under the queue's lock */
};

struct gs_grpc_op {
    gs_grpc_op_fn *fn;
    void *user;
    struct gs_grpc_owner *owner;
    struct gs_grpc_op *next; /**< these two under the queue's lock */
    bool ok;
};

struct gs_loop *gs_grpc_loop(const struct gs_grpc *grpc);
grpc_completion_queue *gs_grpc_queue(const struct gs_grpc *grpc);
/** Arguments for every channel, in front of `more`; freed by free(). NULL: out of memory. */
grpc_channel_args *gs_grpc_args(const struct gs_grpc *grpc, const grpc_arg *more, size_t n_more);

void gs_grpc_expect(struct gs_grpc *grpc, struct gs_grpc_op *op);
/** Batch of a call: gs_grpc_expect() and grpc_call_start_batch(). It cannot fail but by a fault of
 *  ours. */
void gs_grpc_start(struct gs_grpc *grpc, grpc_call *call, const grpc_op *ops, size_t n,
                   struct gs_grpc_op *op);
/** Wait for all that is on its way for `owner` and call it, and nothing else. */
void gs_grpc_settle(struct gs_grpc *grpc, struct gs_grpc_owner *owner);

/** Content of a message in one piece; empty where `message` is NULL or compressed. Freed by
 *  grpc_slice_unref(). */
grpc_slice gs_grpc_bytes(grpc_byte_buffer *message);
bool gs_grpc_is_plain(const grpc_byte_buffer *message);
/** The buffer's memory as a slice, by move. */
grpc_slice gs_grpc_slice_take(struct gs_buf *buf);
