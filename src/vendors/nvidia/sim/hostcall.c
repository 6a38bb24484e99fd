#include "vendors/nvidia/sim/hostcall.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "vendors/nvidia/sim/process.h"
#include "vendors/nvidia/sim/stream.h"

struct call {
    struct call *next;
    CUhostFn fn;
    void *data;
    uint64_t tag;
    uint64_t seq;
    uint32_t card;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct call *first, **last = &first;
static uint64_t queued, done; /* guard: lock; done also read without */
static int started;
static _Thread_local int is_worker;

static void *work(void *arg)
{
    (void)arg;
    is_worker = 1;
    pthread_mutex_lock(&lock);
    for (;;) {
        struct call *c = first;
        if (!c) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        first = c->next;
        if (!first)
            last = &first;
        pthread_mutex_unlock(&lock);
        if (!gs_sim_self.zero_cost)
            gs_stream_wait(c->card, c->tag, 0);
        c->fn(c->data);
        pthread_mutex_lock(&lock);
        __atomic_store_n(&done, c->seq, __ATOMIC_RELEASE);
        pthread_cond_broadcast(&changed);
        free(c);
    }
    return NULL;
}

static int start(void)
{
    pthread_attr_t attr;
    pthread_t thread;
    int rc = pthread_attr_init(&attr);
    if (rc)
        return rc;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    rc = pthread_create(&thread, &attr, work, NULL);
    pthread_attr_destroy(&attr);
    return rc;
}

CUresult gs_hostcall_queue(uint32_t card, uint64_t tag, CUhostFn fn, void *data, uint64_t *ret_seq)
{
    struct call *c = calloc(1, sizeof(*c));
    if (!c)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *c = (struct call){.fn = fn, .data = data, .tag = tag, .card = card};
    pthread_mutex_lock(&lock);
    if (!started) {
        if (start()) {
            pthread_mutex_unlock(&lock);
            free(c);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        started = 1;
    }
    c->seq = ++queued;
    *ret_seq = c->seq;
    *last = c;
    last = &c->next;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

int gs_hostcall_is_done(uint64_t seq)
{
    return is_worker || __atomic_load_n(&done, __ATOMIC_ACQUIRE) >= seq;
}

void gs_hostcall_wait(uint64_t seq)
{
    if (gs_hostcall_is_done(seq))
        return;
    pthread_mutex_lock(&lock);
    while (done < seq)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}
