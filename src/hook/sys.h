#pragma once
/* System calls of the hook, raw: libc's wrappers are cancellation points (a thread cancelled inside
 * would leave our words locked), may be interposed by the program, and some are newer than
 * GLIBC_2.17. Each returns the kernel's answer or -errno, and leaves errno as it was. */

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/** Evaluate a `syscall(...)`, keep errno, give -errno. */
#define GS_SYS(...)                                                                                \
    __extension__({                                                                                \
        int saved_errno_ = errno;                                                                  \
        long answer_ = syscall(__VA_ARGS__);                                                       \
        if (answer_ < 0)                                                                           \
            answer_ = -errno;                                                                      \
        errno = saved_errno_;                                                                      \
        answer_;                                                                                   \
    })

static inline int gs_sys_openat(int dir, const char *path, int flags, unsigned mode)
{
    return (int)GS_SYS(SYS_openat, dir, path, flags, mode);
}

static inline void gs_sys_close(int fd)
{
    (void)GS_SYS(SYS_close, fd); /* nothing could be done about a failure */
}

static inline long gs_sys_read(int fd, void *buf, size_t n)
{
    return GS_SYS(SYS_read, fd, buf, n);
}

static inline long gs_sys_pread(int fd, void *buf, size_t n, uint64_t at)
{
    return GS_SYS(SYS_pread64, fd, buf, n, (off_t)at);
}

static inline long gs_sys_write(int fd, const void *buf, size_t n)
{
    return GS_SYS(SYS_write, fd, buf, n);
}

static inline int gs_sys_fstat(int fd, struct stat *ret)
{
    return (int)GS_SYS(SYS_fstat, fd, ret);
}

/** Record lock on one byte: F_WRLCK or F_UNLCK. -EAGAIN or -EACCES: another process holds it. */
static inline int gs_sys_lock_byte(int fd, uint64_t byte, short type)
{
    struct flock fl = {.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)byte, .l_len = 1};

    return (int)GS_SYS(SYS_fcntl, fd, F_SETLK, &fl);
}

/** Who holds a byte: 0 nobody else; pid > 0; -1 a process that this pid namespace cannot name;
 *  below -1: -errno of a failed question. */
static inline int gs_sys_lock_holder(int fd, uint64_t byte)
{
    struct flock fl = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)byte, .l_len = 1};
    long rc = GS_SYS(SYS_fcntl, fd, F_GETLK, &fl);

    if (rc < 0)
        return rc == -1 ? -EIO : (int)rc;
    if (fl.l_type == F_UNLCK)
        return 0;
    return fl.l_pid > 0 ? fl.l_pid : -1;
}

static inline uint64_t gs_sys_clock_ns(clockid_t clock)
{
    struct timespec ts = {0, 0};

    (void)clock_gettime(clock, &ts); /* these clocks cannot fail */
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline void gs_sys_sleep_us(unsigned us)
{
    struct timespec ts = {0, (long)us * 1000};

    (void)GS_SYS(SYS_nanosleep, &ts, NULL); /* an early wake-up is as good */
}

static inline void gs_sys_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/** A bounded wait for another process or thread: a short spin, then yields, then short sleeps, so
 * that a waiter burns little of its own time while a preempted or stopped peer holds things up. */
struct gs_sys_wait {
    uint32_t rounds;
    uint64_t deadline_ns; /**< CLOCK_MONOTONIC; set when the spin was not enough */
};

#define GS_SYS_WAIT_SPINS  200u
#define GS_SYS_WAIT_YIELDS 20u

#ifdef GS_ATOMICS_SHIM
int gs_shim_wait(void);
static inline int gs_sys_wait(struct gs_sys_wait *wait, unsigned max_us)
{
    (void)wait;
    (void)max_us;
    return gs_shim_wait();
}
#else
/** Wait a little, in all at most `max_us` and one round. Returns 1 while it is worth looking again,
 * 0 when the time is used up. */
static inline int gs_sys_wait(struct gs_sys_wait *wait, unsigned max_us)
{
    uint64_t now;

    if (wait->rounds++ < GS_SYS_WAIT_SPINS) {
        gs_sys_pause();
        return 1;
    }
    now = gs_sys_clock_ns(CLOCK_MONOTONIC);
    if (wait->deadline_ns == 0)
        wait->deadline_ns = now + max_us * UINT64_C(1000);
    if (now >= wait->deadline_ns)
        return 0;
    if (wait->rounds < GS_SYS_WAIT_SPINS + GS_SYS_WAIT_YIELDS)
        (void)GS_SYS(SYS_sched_yield);
    else
        gs_sys_sleep_us(200);
    return 1;
}
#endif
