/* Launches that nobody holds, for the tests of rows that only pass by. */

#include "hook/engine.h"
#include "vendors/nvidia/hook/launch.h"

struct gs_engine_state gs_engine = {.ready = 1, .launch_free = 1};
struct gs_self_state gs_self;
uint32_t gs_capture_count;
uint32_t gs_inflight_out;
struct gs_cost_table gs_cost_table;
struct gs_launch_stream gs_launch_streams[GS_LAUNCH_STREAMS];
struct gs_limiter_credit gs_limiter_credit[GS_LEDGER_DEVICES];
_Thread_local char gs_launch_thread;
_Thread_local struct gs_pocket gs_pocket;

uint32_t gs_launch_device(CUstream stream)
{
    (void)stream;
    return 0;
}

bool gs_pocket_open(void)
{
    return false;
}

bool gs_pocket_refill(uint64_t need_ns)
{
    (void)need_ns;
    return false;
}

struct gs_cost *gs_cost_claim(uint64_t key, uint32_t quarter)
{
    (void)key;
    return &gs_cost_table.coarse[quarter];
}

uint64_t gs_cost_prior_copy(uint64_t bytes, uint32_t bytes_per_ns)
{
    return bytes / bytes_per_ns;
}

void gs_limiter_cancel(uint32_t dev, uint64_t cost_ns, bool measured)
{
    (void)dev, (void)cost_ns, (void)measured;
}

void gs_launch_begin(struct gs_launch *launch)
{
    (void)launch;
}

CUresult gs_launch_end(struct gs_launch *launch, CUresult result)
{
    (void)launch;
    return result;
}

void gs_launch_graph_changed(CUgraphExec exec)
{
    (void)exec;
}

void gs_launch_graph_gone(CUgraphExec exec)
{
    (void)exec;
}

void gs_launch_first(struct gs_launch_stream *stream, uint32_t dev)
{
    (void)stream, (void)dev;
}

void gs_launch_seen(uint64_t id)
{
    (void)id;
}

uint64_t gs_launch_id_of(CUstream stream, bool per_thread)
{
    (void)per_thread;
    return (uintptr_t)stream;
}

void gs_launch_code_gone(void)
{
}

void gs_launch_context_going(CUcontext context)
{
    (void)context;
}

void gs_launch_forget(void)
{
}

void gs_launch_seen_context(CUcontext context)
{
    (void)context;
}

void gs_launch_seen_something(void)
{
}
