#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fake.h"
#include "vendors/nvidia/hook/bodies.h"
#include "vendors/nvidia/hook/graph_scan.h"
#include "vendors/nvidia/hook/pool.h"

static CUresult never_called(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                             size_t n, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    (void)node, (void)graph, (void)dependencies, (void)n, (void)params;
    fake.forwards++;
    return CUDA_SUCCESS;
}

static CUresult add(uint64_t bytes)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = {.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE,
                                         .bytesize = bytes};
    CUgraphNode node;

    return gs_nv_graph_add_mem_alloc_node(never_called, &node, FAKE_GRAPH, NULL, 0, &params);
}

static CUgraphExec instantiate(void)
{
    CUgraphExec exec = NULL;

    assert_int_equal(gs_nv_graph_instantiate(fake_instantiate, &exec, FAKE_GRAPH, 0), CUDA_SUCCESS);
    return exec;
}

static void a_node_beyond_the_limit_is_refused_at_once(void **state)
{
    (void)state;
    fake_reset(64 * MIB);
    assert_int_equal(add(512 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.forwards, 0);
    assert_int_equal(fake.held, 0);
    assert_int_equal(add(64 * MIB), CUDA_SUCCESS);
}

static void a_chain_uses_memory_again(void **state)
{
    const int64_t chain[] = {8 << 20, 0, -1, 8 << 20, -4, 4 << 20, -6};
    const int64_t both[] = {8 << 20, 8 << 20, -1, -2};
    struct gs_graph_need need;

    (void)state;
    fake_reset(64 * MIB);
    fake_graph(chain, 7, true);
    assert_int_equal(gs_graph_scan(FAKE_GRAPH, &need), 0);
    assert_int_equal(need.n, 1);
    assert_int_equal(need.card[0].bytes, 12 * MIB);
    fake_graph(chain, 7, false); /* branches: no telling what runs together */
    assert_int_equal(gs_graph_scan(FAKE_GRAPH, &need), 0);
    assert_int_equal(need.card[0].bytes, 20 * MIB);
    fake_graph(both, 4, true);
    assert_int_equal(gs_graph_scan(FAKE_GRAPH, &need), 0);
    assert_int_equal(need.card[0].bytes, 16 * MIB);
}

static void a_launch_is_charged_and_refused(void **state)
{
    const int64_t nodes[] = {32 << 20, 16 << 20};
    CUgraphExec exec, other;

    (void)state;
    fake_reset(64 * MIB);
    assert_int_equal(add(32 * MIB), CUDA_SUCCESS); /* from here on graphs are looked at */
    fake_graph(nodes, 2, false);
    exec = instantiate();
    other = instantiate();
    assert_int_equal(fake.held, 0);
    fake.forwards = 0;
    assert_int_equal(gs_pool_reserve(0, 32 * MIB, GS_CHARGE_HELD, "test"), 0);
    assert_int_equal(gs_nv_graph_launch(fake_launch, exec, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.forwards, 0);
    assert_int_equal(fake.held, 32 * MIB);
    gs_gate_release(0, 32 * MIB, GS_CHARGE_HELD);
    fake.fail = CUDA_ERROR_LAUNCH_FAILED;
    assert_int_equal(gs_nv_graph_launch(fake_launch, exec, NULL), CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(fake.held, 0);
    assert_int_equal(fake.n_full, 0);
    fake.fail = CUDA_ERROR_OUT_OF_MEMORY; /* the card's, within the limit */
    assert_int_equal(gs_nv_graph_launch(fake_launch, exec, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.n_full, 1);
    assert_int_equal(fake.full_bytes, 48 * MIB);
    assert_int_equal(fake.full_held, 0);
    fake.graph_reserved = fake.graph_used = 48 * MIB; /* what the launch takes */
    assert_int_equal(gs_nv_graph_launch(fake_launch, exec, NULL), CUDA_SUCCESS);
    assert_int_equal(fake.held, 48 * MIB);
    assert_int_equal(gs_nv_graph_launch(fake_launch, exec, NULL),
                     CUDA_SUCCESS); /* has it already */
    assert_int_equal(gs_nv_graph_launch(fake_launch, other, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    /* unused memory of graphs is trimmed before a refusal */
    fake.graph_used = 0;
    assert_int_equal(gs_pool_reserve(0, 64 * MIB, GS_CHARGE_HELD, "test"), 0);
    assert_int_equal(fake.held, 64 * MIB);
    /* after a trim the graph has to take it again */
    assert_int_equal(gs_nv_graph_launch(fake_launch, exec, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    gs_gate_release(0, 64 * MIB, GS_CHARGE_HELD);
    assert_int_equal(gs_nv_graph_exec_destroy(fake_exec_destroy, exec), CUDA_SUCCESS);
    assert_int_equal(gs_nv_graph_launch(fake_launch, exec, NULL),
                     CUDA_SUCCESS); /* unknown: forwarded */
    assert_int_equal(fake.held, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_beyond_the_limit_is_refused_at_once),
        cmocka_unit_test(a_chain_uses_memory_again),
        cmocka_unit_test(a_launch_is_charged_and_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
