#include "hook/engine.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "hook/attach.h"
#include "hook/board.h"
#include "hook/limiter.h"
#include "hook/lookup.h"
#include "hook/ring.h"
#include "hook/slot.h"
#include "hook/track.h"

/* The engine alone: the driver is a small library of ours, attaching and the rest count their
 * calls. */

static int wrapper(void)
{
    return 1;
}
static int (*real_function)(void);
static void *real_absent = (void *)1; /* stays, for the "driver" lacks it */

static const struct gs_hook_row rows[] = {
    {"sample_absent", (void *)(uintptr_t)wrapper, &real_absent},
    {"sample_function", (void *)(uintptr_t)wrapper, (void **)&real_function},
};
static const struct gs_hook_lib libs[] = {
    {.soname = SAMPLE_NAME, .prefix = "sample_", .rows = rows, .n_rows = 2},
    {.soname = "libno-such.so.1", .prefix = "none_"},
};
const struct gs_hook_vendor gs_hook_vendor = {.name = "sample", .libs = libs, .n_libs = 2};

static struct {
    int attach, forget, reset, flagged, logged, answer;
    enum gs_reason reason;
    bool nested;
} seen;

int gs_attach(void)
{
    __atomic_fetch_add(&seen.attach, 1, __ATOMIC_RELAXED);
    if (seen.nested) {
        gs_engine_start();                /* what attaching calls may come back */
        seen.nested = !gs_engine_enter(); /* and goes straight to the driver */
    }
    errno = EIO;
    return seen.answer;
}
void gs_attach_forget(void)
{
    seen.forget++;
}
int gs_attach_device(const char *uuid)
{
    return strcmp(uuid, "GPU-1") == 0 ? 1 : -ENODEV;
}
enum gs_reason gs_attach_reason(void)
{
    return seen.reason;
}
void gs_limiter_configure(void)
{
}
void gs_limiter_publish(void)
{
}
void gs_limiter_forget(void)
{
}
void gs_hook_board_forget(void)
{
}
void gs_track_reset(void)
{
    seen.reset++;
}
void gs_slot_flag(uint32_t flags)
{
    seen.flagged += flags == GS_SLOT_UNHELD;
}
void gs_ring_log(enum gs_reason reason, uint32_t dev, const char *what, const uint64_t arg[4])
{
    (void)dev, (void)what, (void)arg;
    seen.logged += reason == GS_REASON_UNHELD;
}
void *gs_lookup_open(const char *file, int flags)
{
    return dlopen(file, flags);
}

/* In a child, so that each test finds the engine as a new process does. */
static void in_child(void (*fn)(void))
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        fn();
        _exit(0); /* a failed assertion exits otherwise */
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* cmocka's assertions jump to the parent's frame; a child says it by its status */
#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            (void)!write(2, #x "\n", sizeof #x);                                                   \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* What a driver's function does: it comes back from further down the stack. */
__attribute__((noinline)) static bool enter_nested(void)
{
    const bool entered = gs_engine_enter();
    __asm__ volatile("" ::: "memory"); /* no tail call */
    return entered;
}

static void *enter_and_leave(void *arg)
{
    pthread_barrier_wait(arg);
    const bool entered = gs_engine_enter();
    const bool again = enter_nested();
    gs_engine_leave();
    return (void *)(uintptr_t)(entered && !again && gs_engine.ready == 1);
}

static void threads_start_once(void)
{
    enum { N = 8 };
    pthread_t thread[N];
    pthread_barrier_t barrier;
    void *ok;
    CHECK(pthread_barrier_init(&barrier, NULL, N) == 0);
    for (int i = 0; i < N; i++)
        CHECK(pthread_create(&thread[i], NULL, enter_and_leave, &barrier) == 0);
    for (int i = 0; i < N; i++) {
        CHECK(pthread_join(thread[i], &ok) == 0);
        CHECK(ok != NULL);
    }
    CHECK(seen.attach == 1);
    CHECK(seen.forget == 0);
}

static void start_keeps_errno_and_survives_nesting(void)
{
    seen.nested = true;
    errno = ENOTTY;
    gs_engine_start();
    CHECK(errno == ENOTTY);
    CHECK(seen.nested);
    CHECK(seen.attach == 1);
    CHECK(gs_engine_depth == 0);
    gs_engine_start();
    CHECK(seen.attach == 1);
}

static jmp_buf before_launch;

__attribute__((noinline)) static void jump_out_of_a_launch(void)
{
    CHECK(gs_engine_enter());
    longjmp(before_launch, 1);
}

/** A signal's handler that jumps out of a waiting launch must not leave the thread unheld. */
static void who_jumps_out_is_held_again(void)
{
    if (setjmp(before_launch) == 0)
        jump_out_of_a_launch();
    CHECK(gs_engine_depth != 0); /* nobody left */
    for (int i = 0; i < 2; i++) {
        CHECK(gs_engine_enter());
        CHECK(!enter_nested());
        gs_engine_leave();
    }
}

static void forked_child_starts_afresh(void)
{
    gs_engine_start();
    CHECK(gs_engine.ready == 1);
    for (int generation = 1; generation <= 2; generation++) {
        int status = 0;
        pid_t pid = fork();
        if (pid != 0) {
            CHECK(waitpid(pid, &status, 0) == pid);
            CHECK(status == 0);
            CHECK(gs_engine.ready == 1); /* the parent's is as it was */
            return;
        }
        CHECK(gs_engine.ready == 0);
        CHECK(gs_engine_enter());
        gs_engine_leave();
        CHECK(gs_engine.ready == 1);
        CHECK(seen.attach == 1 + generation);
        CHECK(seen.forget == generation);
        CHECK(seen.reset == generation);
    }
}

static void closed_is_an_answer(void)
{
    seen.answer = -ESHUTDOWN;
    seen.reason = GS_REASON_NO_QUOTA;
    gs_engine_start();
    CHECK(gs_engine.ready == 1);
    gs_engine_start();
    CHECK(seen.attach == 1);
}

static void without_a_driver_cards_are_asked_for_later(void)
{
    seen.answer = -ESHUTDOWN;
    seen.reason = GS_REASON_NO_CARDS;
    gs_engine_note_unheld("dlmopen");
    CHECK(seen.attach == 1 && seen.forget == 1 && seen.flagged == 0);
    CHECK(gs_engine.ready == 0);
    CHECK(dlopen(SAMPLE_PATH, RTLD_NOW) != NULL);
    seen.answer = 0;
    gs_engine_start();
    CHECK(gs_engine.ready == 1);
    CHECK(seen.attach == 2 && seen.forget == 1);
    CHECK(seen.flagged == 1 && seen.logged == 1); /* told as soon as there is a slot */
}

static void unheld_is_told_once(void)
{
    gs_engine_start();
    gs_engine_note_unheld("dlmopen");
    gs_engine_note_unheld("dlmopen");
    CHECK(seen.flagged == 1 && seen.logged == 1);
}

static void resolves_what_is_loaded(void)
{
    gs_engine_resolve();
    CHECK(real_function == NULL);
    CHECK(gs_engine_load(1) == -ENOENT);
    CHECK(gs_engine_load(99) == -ENOENT);
    CHECK(gs_engine_symbol(0, "sample_function") == NULL);

    void *handle = dlopen(SAMPLE_PATH, RTLD_NOW);
    CHECK(handle != NULL);
    void *function = dlsym(handle, "sample_function");
    void *data = dlsym(handle, "sample_data");
    CHECK(gs_engine_translate(NULL) == NULL);
    CHECK(gs_engine_translate(&handle) == &handle);
    CHECK(gs_engine_translate(function) == rows[1].wrapper); /* found without being told */
    CHECK(gs_engine_translate(data) == data);
    CHECK((void *)(uintptr_t)real_function == function);
    CHECK(real_absent == (void *)1);
    CHECK(gs_engine_symbol(0, "sample_data") == data);
    CHECK(gs_engine_load(0) == 0);
    CHECK(gs_engine_owns((uintptr_t)function) && !gs_engine_owns((uintptr_t)&handle));

    (void)dlclose(handle); /* ours by now: the addresses stay good */
    CHECK(real_function() == 49);
    CHECK(gs_engine_device("GPU-1") == 1);
}

#define IN_CHILD(name)                                                                             \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        in_child(name);                                                                            \
    }
IN_CHILD(threads_start_once)
IN_CHILD(start_keeps_errno_and_survives_nesting)
IN_CHILD(who_jumps_out_is_held_again)
IN_CHILD(forked_child_starts_afresh)
IN_CHILD(closed_is_an_answer)
IN_CHILD(without_a_driver_cards_are_asked_for_later)
IN_CHILD(unheld_is_told_once)
IN_CHILD(resolves_what_is_loaded)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_start_once),
        cmocka_unit_test(test_start_keeps_errno_and_survives_nesting),
        cmocka_unit_test(test_who_jumps_out_is_held_again),
        cmocka_unit_test(test_forked_child_starts_afresh),
        cmocka_unit_test(test_closed_is_an_answer),
        cmocka_unit_test(test_without_a_driver_cards_are_asked_for_later),
        cmocka_unit_test(test_unheld_is_told_once),
        cmocka_unit_test(test_resolves_what_is_loaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
