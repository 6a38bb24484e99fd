#include "vendors/nvidia/hook/timing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "vendors/nvidia/hook/driver.h"

#define MS INT64_C(1000000)
#define S  INT64_C(1000000000)

struct gs_driver gs_driver_table;

void gs_driver_resolve_cuda(void)
{
    fail();
}

/* The card passes an event when the test says; its clock began at another moment. */
#define EVENTS 16u
static int64_t passed_ns[EVENTS + 1];
static uint32_t n_events;
static int64_t pass_at_ns;

static CUresult event_new(CUevent *ret_event, unsigned int flags)
{
    assert_int_equal(flags, 0);
    assert_true(n_events < EVENTS);
    *ret_event = (CUevent)(uintptr_t)++n_events;
    return CUDA_SUCCESS;
}

static CUresult event_record(CUevent event, CUstream stream)
{
    (void)stream;
    passed_ns[(uintptr_t)event] = pass_at_ns;
    return CUDA_SUCCESS;
}

static CUresult event_elapsed(float *ret_ms, CUevent from, CUevent to)
{
    *ret_ms = (float)((double)(passed_ns[(uintptr_t)to] - passed_ns[(uintptr_t)from]) / 1e6);
    return CUDA_SUCCESS;
}

/* Of queries and of destruction. */
static CUresult event_done(CUevent event)
{
    (void)event;
    return CUDA_SUCCESS;
}

static const struct gs_timing_where where = {.context = (CUcontext)(uintptr_t)8, .id = 1};

static int setup(void **state)
{
    (void)state;
    gs_driver_table.cuEventCreate = event_new;
    gs_driver_table.cuEventRecord = event_record;
    gs_driver_table.cuEventElapsedTime = event_elapsed;
    gs_driver_table.cuEventQuery = event_done;
    gs_driver_table.cuEventDestroy_v2 = event_done;
    gs_driver_table.cuda_known = 1;
    n_events = 0;
    gs_timing_forget();
    return 0;
}

/* A launch that began at once, ended then and was seen later. */
static struct gs_timing_span place(int64_t start_ns, int64_t end_ns, int64_t seen_ns)
{
    CUevent from = gs_timing_event_new(), to = gs_timing_event_new();
    struct gs_timing_base base;

    pass_at_ns = start_ns;
    base = gs_timing_base_get(&where, (uint64_t)start_ns);
    assert_true(gs_timing_record(from, &where));
    pass_at_ns = end_ns;
    assert_true(gs_timing_record(to, &where));
    return gs_timing_place(&base, from, to, (uint64_t)start_ns, (uint64_t)seen_ns);
}

static void assert_near(uint64_t seen_ns, int64_t ns, int64_t within_ns)
{
    assert_in_range(seen_ns, ns - within_ns, ns + within_ns);
}

/* Nothing but the moment of looking bounds it from above. */
static void test_the_first_is_placed_where_it_was_seen(void **state)
{
    struct gs_timing_span span = place(10 * S, 10 * S + 50 * MS, 10 * S + 90 * MS);

    (void)state;
    assert_near(span.start_ns, 10 * S + 40 * MS, 100);
    assert_near(span.end_ns, 10 * S + 90 * MS, 100);
}

static void test_one_prompt_look_places_the_others(void **state)
{
    struct gs_timing_span span;

    (void)state;
    (void)place(10 * S, 10 * S + 50 * MS, 10 * S + 50 * MS);
    span = place(10 * S + 200 * MS, 10 * S + 250 * MS, 10 * S + 290 * MS);
    assert_near(span.start_ns, 10 * S + 200 * MS, 100);
    assert_near(span.end_ns, 10 * S + 250 * MS, 100);
}

/* With a new base, too: or once a second a long kernel would be noted tens of milliseconds late. */
static void test_a_new_base_goes_on_from_the_old_one(void **state)
{
    struct gs_timing_span span;

    (void)state;
    (void)place(10 * S, 10 * S + 50 * MS, 10 * S + 50 * MS);
    for (int64_t at = 12 * S; at < 20 * S; at += 2 * S) {
        span = place(at, at + 50 * MS, at + 90 * MS);
        assert_near(span.start_ns, at, (at - 10 * S) / 5000);
        assert_near(span.end_ns, at + 50 * MS, (at - 10 * S) / 5000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_the_first_is_placed_where_it_was_seen, setup),
        cmocka_unit_test_setup(test_one_prompt_look_places_the_others, setup),
        cmocka_unit_test_setup(test_a_new_base_goes_on_from_the_old_one, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
