#include "vendors/nvidia/sim/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vendors/nvidia/sim/holders.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

#define PF_EXITING 0x4UL /* of a thread that is past its last instruction (kernel, sched.h) */

enum ready { READY_NO = 0, READY_YES = 1, READY_OVER = 2 };

struct gs_sim_self gs_sim_self = {.lock = PTHREAD_MUTEX_INITIALIZER, .slot = GS_SIM_NONE};
const uint32_t *gs_process_ready_word;

static pthread_mutex_t join_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t *ready; /* the word gs_process_ready_word points at, to write */
static int alive_fd = -1;
static uint64_t own_pid_ns;
static uint64_t own_start;
static uint32_t visible[GS_SIM_CARDS_MAX];
static int n_visible = -1;

/* Field 9 of /proc/<pid>/stat: the kernel's flags of one thread; 0 if it cannot be read. */
static unsigned long thread_flags(const char *path, uint64_t *ret_start)
{
    char buf[512];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);
    if (fd >= 0)
        (void)close(fd);
    if (n <= 0)
        return 0;
    buf[n] = 0;
    const char *p = strrchr(buf, ')');
    unsigned long flags = 0;
    for (int field = 2; p && field < 22; field++) {
        p = strchr(p + 1, ' ');
        if (p && field + 1 == 9)
            flags = strtoul(p + 1, NULL, 10);
    }
    *ret_start = p ? strtoull(p + 1, NULL, 10) : 0;
    return flags;
}

/* The descriptor stays open for good, in every library that looks (see process.h). */
static int open_alive(void)
{
    int known = __atomic_load_n(&alive_fd, __ATOMIC_ACQUIRE);
    if (known >= 0)
        return known;
    char path[PATH_MAX];
    int rc = gs_state_path(path, sizeof(path), "alive");
    if (rc)
        return rc;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return -errno;
    struct stat st;
    own_pid_ns = stat("/proc/self/ns/pid", &st) ? 0 : (uint64_t)st.st_ino;
    (void)thread_flags("/proc/self/stat", &own_start);
    int none = -1;
    if (__atomic_compare_exchange_n(&alive_fd, &none, fd, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return fd;
    return none;
}

/* Byte locks lie behind the first page, so that the file needs no bytes at all. */
static struct flock slot_lock(short type, uint32_t slot)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)slot, .l_len = 1};
}

int gs_process_is_alive(uint32_t slot)
{
    const struct gs_sim_proc *p = &gs_sim_state->proc[slot];
    int fd = open_alive();
    if (slot == gs_sim_self.slot || fd < 0)
        return 1;
    int same_ns = p->pid_ns && p->pid_ns == own_pid_ns;
    if (same_ns && p->pid == getpid())
        return p->start_time == own_start; /* own locks do not show */
    struct flock lock = slot_lock(F_WRLCK, slot);
    if (fcntl(fd, F_GETLK, &lock))
        return 1;
    if (lock.l_type == F_UNLCK)
        return 0;
    return !(same_ns && kill(p->pid, 0) && errno == ESRCH);
}

/* The same, and a process none of whose threads will ever run again counts as dead even before the
 * kernel has dropped its locks (costs a look into /proc). */
static int can_run(uint32_t slot)
{
    const struct gs_sim_proc *p = &gs_sim_state->proc[slot];
    char path[64 + NAME_MAX];
    uint64_t start = 0;
    if (!gs_process_is_alive(slot))
        return 0;
    if (slot == gs_sim_self.slot || !p->pid_ns || p->pid_ns != own_pid_ns || p->pid == getpid())
        return 1;
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", p->pid);
    unsigned long flags = thread_flags(path, &start);
    if (start && start != p->start_time)
        return 0;
    if (!(flags & PF_EXITING))
        return 1;
    /* The first thread may be gone while others run. */
    (void)snprintf(path, sizeof(path), "/proc/%d/task", p->pid);
    DIR *tasks = opendir(path);
    int runs = 0;
    for (const struct dirent *d; tasks && !runs && (d = readdir(tasks));) {
        if (d->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof(path), "/proc/%d/task/%s/stat", p->pid, d->d_name);
        flags = thread_flags(path, &start);
        runs = flags && !(flags & PF_EXITING);
    }
    if (tasks)
        (void)closedir(tasks);
    return runs;
}

static void bury(uint32_t slot)
{
    struct gs_sim_state *s = gs_sim_state;
    gs_holders_forget(slot);
    for (uint32_t c = 0; c < s->n_cards; c++)
        gs_clock_drop(gs_state_clock(c), slot);
    s->proc[slot].card_mask = 0;
    s->proc[slot].contexts = 0;
    __atomic_store_n(&s->proc[slot].state, 0, __ATOMIC_RELEASE);
    s->reaped++;
}

unsigned gs_process_reap(uint32_t group, uint32_t card, int thorough)
{
    struct gs_sim_state *s = gs_sim_state;
    unsigned n = 0;
    for (uint32_t i = 0; i < s->proc_top; i++) {
        const struct gs_sim_proc *p = &s->proc[i];
        if (p->state != 1 || i == gs_sim_self.slot || (group != GS_SIM_NONE && p->group != group) ||
            (card != GS_SIM_NONE && !p->used_bytes[card]))
            continue;
        if (thorough ? can_run(i) : gs_process_is_alive(i))
            continue;
        bury(i);
        n++;
    }
    gs_holders_sweep();
    /* An inheritance may have moved a charge to another group: look at everybody once. */
    if (n && group != GS_SIM_NONE)
        n += gs_process_reap(GS_SIM_NONE, GS_SIM_NONE, thorough);
    return n;
}

uint64_t gs_process_used(uint32_t slot, uint32_t card)
{
    return gs_sim_state->proc[slot].used_bytes[card];
}

/* A slot whose byte this process could lock. State lock held. */
static int take_slot(int fd)
{
    struct gs_sim_state *s = gs_sim_state;
    for (uint32_t i = 0; i < GS_SIM_PROCS_MAX; i++) {
        if (i < s->proc_top && s->proc[i].state)
            continue;
        struct flock lock = slot_lock(F_WRLCK, i);
        if (fcntl(fd, F_SETLK, &lock))
            continue; /* its last user is still on the way out */
        if (i >= s->proc_top)
            s->proc_top = i + 1;
        return (int)i;
    }
    return -ENOSPC;
}

static int fill_slot(int fd)
{
    const char *group = getenv("GPUSLICE_SIM_GROUP");
    int g = gs_state_group(group ? group : "");
    if (g < 0)
        return g;
    int slot = take_slot(fd);
    if (slot < 0) {
        (void)gs_process_reap(GS_SIM_NONE, GS_SIM_NONE, 1);
        slot = take_slot(fd);
    }
    if (slot < 0)
        return slot;
    struct gs_sim_proc *p = &gs_sim_state->proc[slot];
    *p = (struct gs_sim_proc){
        .pid = getpid(), .start_time = own_start, .pid_ns = own_pid_ns, .group = (uint32_t)g};
    (void)prctl(PR_GET_NAME, p->comm);
    gs_sim_self.slot = (uint32_t)slot;
    gs_sim_self.group = (uint32_t)g;
    gs_sim_self.zero_cost = gs_sim_state->zero_cost;
    __atomic_store_n(&p->state, 1, __ATOMIC_RELEASE);
    return 0;
}

static int join(void)
{
    int rc = gs_state_open();
    if (rc)
        return rc;
    int fd = open_alive();
    if (fd < 0)
        return fd;
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return -errno;
    (void)madvise(page, 4096, MADV_WIPEONFORK);
    gs_state_lock();
    rc = fill_slot(fd);
    gs_state_unlock();
    if (rc) {
        (void)munmap(page, 4096);
        return rc;
    }
    ready = page;
    __atomic_store_n(&gs_process_ready_word, page, __ATOMIC_RELEASE);
    gs_sim_self.joined = (uint32_t)getpid();
    __atomic_store_n(ready, READY_YES, __ATOMIC_RELEASE);
    return 0;
}

int gs_process_join(void)
{
    if (__atomic_load_n(&gs_process_ready_word, __ATOMIC_ACQUIRE))
        return *ready == READY_YES ? 0 : -ECHILD;
    (void)pthread_mutex_lock(&join_lock);
    int rc = ready ? 0 : join();
    (void)pthread_mutex_unlock(&join_lock);
    return rc;
}

CUresult gs_process_not_ready(void)
{
    return ready && *ready == READY_OVER ? CUDA_ERROR_DEINITIALIZED : CUDA_ERROR_NOT_INITIALIZED;
}

/* An orderly end frees at once what the next process would have freed. Not in a forked child. */
__attribute__((destructor)) static void leave(void)
{
    if (!ready || *ready != READY_YES)
        return;
    __atomic_store_n(ready, READY_OVER, __ATOMIC_RELEASE);
    gs_state_lock();
    bury(gs_sim_self.slot);
    gs_state_unlock();
}

/* A library without contexts (NVML) has no current card. */
__attribute__((weak)) int gs_fault_current_card(void)
{
    return -1;
}

int gs_process_device_count(void)
{
    return n_visible >= 0 ? n_visible : (int)gs_sim_state->n_cards;
}

uint32_t gs_process_device_card(int device)
{
    if (device < 0 || device >= gs_process_device_count())
        return GS_SIM_NONE;
    return n_visible >= 0 ? visible[device] : (uint32_t)device;
}

void gs_process_set_visible(const uint32_t *cards, int n)
{
    for (int i = 0; i < n && i < GS_SIM_CARDS_MAX; i++)
        visible[i] = cards[i];
    n_visible = n;
}

void gs_process_lock(void)
{
    (void)pthread_mutex_lock(&gs_sim_self.lock);
}

void gs_process_unlock(void)
{
    (void)pthread_mutex_unlock(&gs_sim_self.lock);
}
