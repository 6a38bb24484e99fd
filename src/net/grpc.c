#include "net/grpc.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/byte_buffer_reader.h>
#include <grpc/support/log.h>

#include "base/buf.h"
#include "base/log.h"
#include "net/grpc_internal.h"
#include "net/loop.h"

/** Memory gRPC core may use for messages before it stops reading. */
#define QUOTA ((size_t)64 << 20)

struct gs_grpc {
    struct gs_loop *loop;
    grpc_completion_queue *queue;
    grpc_resource_quota *quota;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;   /**< guards what follows, and what net/grpc_internal.h says */
    pthread_cond_t arrived; /**< something was put behind `last` */
    struct gs_grpc_op *first, **last;
    size_t n;
    struct gs_loop_task task;
};

/* ---- status ---- */

static const struct {
    const char *name;
    int status, number;
} table[] = {
#define X(name, status, number) {#name, status, number},
#include "net/grpc_status.def"
#undef X
};

int gs_grpc_status_of(int rc)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(table); i++) {
        if (table[i].number == -rc)
            return table[i].status;
    }
    return GRPC_STATUS_INTERNAL;
}

static size_t row_of(int status)
{
    size_t unknown = 0;

    for (size_t i = 0; i < GS_ARRAY_LEN(table); i++) {
        if (table[i].status == status)
            return i;
        if (table[i].status == GRPC_STATUS_UNKNOWN)
            unknown = i;
    }
    return unknown;
}

int gs_grpc_rc_of(int status)
{
    return -table[row_of(status)].number;
}

const char *gs_grpc_status_name(int status)
{
    return table[row_of(status)].name;
}

/* ---- what gRPC core finished ---- */

static struct gs_grpc_op *take_first(struct gs_grpc *grpc, struct gs_grpc_op **at)
{
    struct gs_grpc_op *op = *at;

    if (!op)
        return NULL;
    *at = op->next;
    if (!*at)
        grpc->last = at;
    grpc->n--;
    op->owner->pending--;
    return op;
}

/** Those that are there now, one by one: a callback may free its owner, whose others go with it. */
static void on_task(void *user)
{
    struct gs_grpc *grpc = user;

    pthread_mutex_lock(&grpc->lock);
    for (size_t left = grpc->n; left > 0 && grpc->first; left--) {
        struct gs_grpc_op *op = take_first(grpc, &grpc->first);
        bool ok = op->ok;
        pthread_mutex_unlock(&grpc->lock);
        op->fn(op->user, ok);
        pthread_mutex_lock(&grpc->lock);
    }
    bool more = grpc->first != NULL;
    pthread_mutex_unlock(&grpc->lock);
    if (more)
        gs_loop_post(grpc->loop, &grpc->task, on_task, grpc);
}

static void put(struct gs_grpc *grpc, struct gs_grpc_op *op, bool ok)
{
    pthread_mutex_lock(&grpc->lock);
    op->ok = ok;
    op->next = NULL;
    *grpc->last = op;
    grpc->last = &op->next;
    grpc->n++;
    pthread_cond_signal(&grpc->arrived);
    pthread_mutex_unlock(&grpc->lock);
    gs_loop_post(grpc->loop, &grpc->task, on_task, grpc);
}

static void *serve_queue(void *user)
{
    struct gs_grpc *grpc = user;

    for (;;) {
        grpc_event event =
            grpc_completion_queue_next(grpc->queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN)
            return NULL;
        if (event.type == GRPC_OP_COMPLETE)
            put(grpc, event.tag, event.success != 0);
    }
}

void gs_grpc_expect(struct gs_grpc *grpc, struct gs_grpc_op *op)
{
    pthread_mutex_lock(&grpc->lock);
    op->owner->pending++;
    pthread_mutex_unlock(&grpc->lock);
}

void gs_grpc_start(struct gs_grpc *grpc, grpc_call *call, const grpc_op *ops, size_t n,
                   struct gs_grpc_op *op)
{
    gs_grpc_expect(grpc, op);
    grpc_call_error error = grpc_call_start_batch(call, ops, n, op, NULL);
    assert(error == GRPC_CALL_OK);
    (void)error;
}

static struct gs_grpc_op *wait_for(struct gs_grpc *grpc, const struct gs_grpc_owner *owner)
{
    struct gs_grpc_op *op = NULL;

    pthread_mutex_lock(&grpc->lock);
    while (!op && owner->pending > 0) {
        struct gs_grpc_op **at = &grpc->first;
        while (*at && (*at)->owner != owner)
            at = &(*at)->next;
        op = take_first(grpc, at);
        if (!op)
            pthread_cond_wait(&grpc->arrived, &grpc->lock);
    }
    pthread_mutex_unlock(&grpc->lock);
    return op;
}

void gs_grpc_settle(struct gs_grpc *grpc, struct gs_grpc_owner *owner)
{
    struct gs_grpc_op *op;

    while ((op = wait_for(grpc, owner)))
        op->fn(op->user, op->ok);
}

/* ---- channels and messages ---- */

struct gs_loop *gs_grpc_loop(const struct gs_grpc *grpc)
{
    return grpc->loop;
}

grpc_completion_queue *gs_grpc_queue(const struct gs_grpc *grpc)
{
    return grpc->queue;
}

static grpc_arg int_arg(const char *key, int value)
{
    return (grpc_arg){.type = GRPC_ARG_INTEGER, .key = (char *)key, .value.integer = value};
}

grpc_channel_args *gs_grpc_args(const struct gs_grpc *grpc, const grpc_arg *more, size_t n_more)
{
    const grpc_arg common[] = {
        {.type = GRPC_ARG_POINTER,
         .key = GRPC_ARG_RESOURCE_QUOTA,
         .value.pointer = {grpc->quota, grpc_resource_quota_arg_vtable()}},
        /* A compressed message is refused rather than unpacked to any size. */
        int_arg(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0),
        int_arg(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0),
        /* Nobody asks for these books. */
        int_arg(GRPC_ARG_ENABLE_CHANNELZ, 0),
        int_arg(GRPC_ARG_MAX_CHANNEL_TRACE_EVENT_MEMORY_PER_NODE, 0),
        int_arg(GRPC_ARG_ENABLE_RETRIES, 0),
        /* A unix socket has no bandwidth to be found out. */
        int_arg(GRPC_ARG_HTTP2_BDP_PROBE, 0),
    };
    size_t n = GS_ARRAY_LEN(common);
    grpc_channel_args *args = malloc(sizeof(*args) + (n + n_more) * sizeof(grpc_arg));

    if (!args)
        return NULL;
    args->num_args = n + n_more;
    args->args = (grpc_arg *)(args + 1);
    memcpy(args->args, common, sizeof(common));
    memcpy(args->args + n, more, n_more * sizeof(*more));
    return args;
}

bool gs_grpc_is_plain(const grpc_byte_buffer *message)
{
    return message->type == GRPC_BB_RAW && message->data.raw.compression == GRPC_COMPRESS_NONE;
}

grpc_slice gs_grpc_bytes(grpc_byte_buffer *message)
{
    grpc_byte_buffer_reader reader;

    if (!message || !gs_grpc_is_plain(message) || !grpc_byte_buffer_reader_init(&reader, message))
        return grpc_empty_slice();
    grpc_slice bytes = grpc_byte_buffer_reader_readall(&reader);
    grpc_byte_buffer_reader_destroy(&reader);
    return bytes;
}

grpc_slice gs_grpc_slice_take(struct gs_buf *buf)
{
    if (!buf->p)
        return grpc_empty_slice();
    grpc_slice slice = grpc_slice_new(buf->p, buf->n, free);
    *buf = (struct gs_buf){0};
    return slice;
}

/* ---- life ---- */

static void on_log(gpr_log_func_args *args)
{
    GS_LOG_DEBUG("grpc", GS_LOG_CSTR("text", args->message), GS_LOG_CSTR("file", args->file),
                 GS_LOG_INT("line", args->line));
}

static int start_thread(struct gs_grpc *grpc)
{
    int rc = pthread_create(&grpc->thread, NULL, serve_queue, grpc);

    grpc->has_thread = rc == 0;
    if (rc == 0)
        (void)pthread_setname_np(grpc->thread, "grpc");
    return -rc;
}

/** gRPC core's threads, and ours, inherit the mask. */
static int start(struct gs_grpc *grpc)
{
    sigset_t all, before;

    (void)sigfillset(&all);
    int rc = -pthread_sigmask(SIG_SETMASK, &all, &before);
    if (rc < 0)
        return rc;
    gpr_set_log_function(on_log);
    grpc_init();
    grpc->quota = grpc_resource_quota_create("gpuslice");
    grpc_resource_quota_resize(grpc->quota, QUOTA);
    grpc->queue = grpc_completion_queue_create_for_next(NULL);
    rc = start_thread(grpc);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

int gs_grpc_new(struct gs_loop *loop, struct gs_grpc **ret_grpc)
{
    GS_CLEANUP(gs_grpc_free_p) struct gs_grpc *grpc = calloc(1, sizeof(*grpc));

    if (!grpc)
        return -ENOMEM;
    grpc->loop = loop;
    grpc->last = &grpc->first;
    pthread_mutex_init(&grpc->lock, NULL);
    pthread_cond_init(&grpc->arrived, NULL);
    int rc = start(grpc);
    if (rc < 0)
        return rc;
    *ret_grpc = GS_STEAL(grpc);
    return 0;
}

struct gs_grpc *gs_grpc_free(struct gs_grpc *grpc)
{
    if (!grpc)
        return NULL;
    if (grpc->queue) {
        grpc_completion_queue_shutdown(grpc->queue);
        if (grpc->has_thread)
            pthread_join(grpc->thread, NULL);
        else
            (void)serve_queue(grpc); /* up to the end of the queue, which is all it holds */
        grpc_completion_queue_destroy(grpc->queue);
        grpc_resource_quota_unref(grpc->quota);
        grpc_shutdown_blocking();
    }
    gs_loop_task_cancel(grpc->loop, &grpc->task);
    assert(!grpc->first); /* its servers and clients were freed before */
    pthread_cond_destroy(&grpc->arrived);
    pthread_mutex_destroy(&grpc->lock);
    free(grpc);
    return NULL;
}

void gs_grpc_free_p(struct gs_grpc **grpc)
{
    *grpc = gs_grpc_free(*grpc);
}
