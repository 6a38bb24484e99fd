#include "vendors/nvidia/sim/state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_MEMORY      (UINT64_C(8) << 30)
#define DEFAULT_GRANULARITY (UINT64_C(2) << 20)
#define MIN_GRANULARITY_LOG 16
#define MAX_GRANULARITY_LOG 25
#define MAX_MEMORY          (UINT64_C(1) << 42)

struct gs_sim_state *gs_sim_state;

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static char dir[PATH_MAX - 64];

/* What the environment asks for. */
struct config {
    uint64_t cards;
    uint64_t memory_bytes;
    uint64_t overhead_bytes;
    uint64_t granularity; /* 0: random per card */
    uint64_t slice_us;    /* of a turn on the card */
    uint32_t zero_cost;
};

_Static_assert(GS_SIM_CARDS_MAX == 64, "told in words below");
_Static_assert(MAX_MEMORY == UINT64_C(4) << 40, "likewise");

/* Digits and an optional suffix K M G T (decimal) or Ki Mi Gi Ti (binary). */
static int parse_size(const char *text, uint64_t *ret_bytes)
{
    static const char units[] = "KMGT";
    char *end = NULL;
    if (*text < '0' || *text > '9')
        return -EINVAL;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (errno)
        return -EINVAL;
    uint64_t factor = 1;
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (unit) {
        uint64_t base = end[1] == 'i' ? 1024 : 1000;
        end += base == 1024 ? 2 : 1;
        for (long i = 0; i <= unit - units; i++)
            factor *= base;
    }
    if (*end || __builtin_mul_overflow(n, factor, ret_bytes))
        return -EINVAL;
    return 0;
}

static int refuse(const char *name, const char *why)
{
    const char *text = getenv(name);

    (void)fprintf(stderr, "gpuslice-sim: %s='%s': %s\n", name, text ? text : "", why);
    return -EINVAL;
}

static int env_size(const char *name, uint64_t *value)
{
    const char *text = getenv(name);
    if (!text || !*text)
        return 0;
    int rc = parse_size(text, value);
    if (rc)
        return refuse(name, "not a number, or one with K M G T, Ki Mi Gi Ti");
    return 0;
}

static int check_config(const struct config *c)
{
    uint64_t g = c->granularity;

    if (c->cards > GS_SIM_CARDS_MAX)
        return refuse("GPUSLICE_SIM_CARDS", "at most 64 cards");
    if (!c->memory_bytes || c->memory_bytes > MAX_MEMORY)
        return refuse("GPUSLICE_SIM_MEMORY", "a card has more than nothing and at most 4Ti");
    if (!c->slice_us || c->slice_us > 1000000)
        return refuse("GPUSLICE_SIM_SLICE_US", "1 to 1000000");
    if (g && ((g & (g - 1)) || g >> MIN_GRANULARITY_LOG == 0 || g >> (MAX_GRANULARITY_LOG + 1)))
        return refuse("GPUSLICE_SIM_GRANULARITY", "a power of two from 64Ki to 32Mi, or 'random'");
    return 0;
}

static int read_config(struct config *c)
{
    *c = (struct config){.cards = 1,
                         .memory_bytes = DEFAULT_MEMORY,
                         .granularity = DEFAULT_GRANULARITY,
                         .slice_us = GS_CLOCK_SLICE_NS / 1000};
    int rc = env_size("GPUSLICE_SIM_CARDS", &c->cards);
    if (!rc)
        rc = env_size("GPUSLICE_SIM_MEMORY", &c->memory_bytes);
    if (!rc)
        rc = env_size("GPUSLICE_SIM_OVERHEAD", &c->overhead_bytes);
    if (!rc)
        rc = env_size("GPUSLICE_SIM_SLICE_US", &c->slice_us);
    const char *granularity = getenv("GPUSLICE_SIM_GRANULARITY");
    if (granularity && !strcmp(granularity, "random"))
        c->granularity = 0;
    else if (!rc)
        rc = env_size("GPUSLICE_SIM_GRANULARITY", &c->granularity);
    if (rc)
        return rc;
    const char *mode = getenv("GPUSLICE_SIM_MODE");
    c->zero_cost = mode && !strcmp(mode, "zero-cost");
    return check_config(c);
}

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* The same folder gives the same UUIDs, so that a kept set of cards keeps its names. */
static void fill_uuid(char uuid[16], uint64_t index)
{
    uint64_t h = UINT64_C(1469598103934665603);
    for (const char *p = dir; *p; p++)
        h = (h ^ (unsigned char)*p) * UINT64_C(1099511628211);
    uint64_t half[2] = {mix(h + index), mix(h ^ ((index + 1) << 32))};
    memcpy(uuid, half, 16);
    uuid[6] = (char)((uuid[6] & 0x0f) | 0x40);
    uuid[8] = (char)((uuid[8] & 0x3f) | 0x80);
}

static uint64_t card_granularity(const struct config *c, uint64_t seed)
{
    if (c->granularity)
        return c->granularity;
    return UINT64_C(1) << (MIN_GRANULARITY_LOG +
                           seed % (MAX_GRANULARITY_LOG - MIN_GRANULARITY_LOG + 1));
}

static void fill_cards(struct gs_sim_state *s, const struct config *c)
{
    uint64_t at = gs_sim_align(sizeof(*s), 4096);
    for (uint32_t i = 0; i < c->cards; i++) {
        struct gs_sim_card_state *card = &s->card[i];
        card->index = i;
        card->memory_bytes = c->memory_bytes;
        card->granularity = card_granularity(c, mix(s->nonce + i));
        card->shift = (uint64_t)__builtin_ctzll(card->granularity);
        card->span_units =
            gs_sim_align(((c->memory_bytes >> card->shift) + 1) * GS_SIM_SPAN_FACTOR, 64);
        card->bitmap_at = at;
        at += gs_sim_align(card->span_units / 8, 4096);
        card->clock_at = at;
        at += gs_sim_align(sizeof(struct gs_clock), 4096);
        fill_uuid(card->uuid, i);
        (void)snprintf(card->name, sizeof(card->name), "%s",
                       s->model[0] ? s->model : "NVIDIA A100-SXM4-80GB");
    }
    s->size = at;
}

static int init_lock(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attr;
    int rc = pthread_mutexattr_init(&attr);
    if (rc)
        return -rc;
    rc = pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    if (!rc)
        rc = pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    if (!rc)
        rc = pthread_mutex_init(lock, &attr);
    (void)pthread_mutexattr_destroy(&attr);
    return -rc;
}

static int fill_state(struct gs_sim_state *s, const struct config *c)
{
    uint64_t nonce = 0;
    if (getrandom(&nonce, sizeof(nonce), 0) != sizeof(nonce))
        return -EIO;
    const char *model = getenv("GPUSLICE_SIM_MODEL");
    (void)snprintf(s->model, sizeof(s->model), "%s", model ? model : "");
    s->layout = sizeof(*s);
    s->nonce = nonce;
    s->n_cards = (uint32_t)c->cards;
    s->zero_cost = c->zero_cost;
    s->overhead_bytes = c->overhead_bytes;
    s->object_free = GS_SIM_NONE;
    s->n_groups = 1;
    fill_cards(s, c);
    s->magic = GS_SIM_MAGIC;
    return init_lock(&s->lock);
}

/* The clocks lie behind what fill_state() wrote. */
static int fill_clocks(int fd, uint64_t size, uint64_t slice_us)
{
    struct gs_sim_state *s = MAP_FAILED;
    if (!ftruncate(fd, (off_t)size))
        s = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (s == MAP_FAILED)
        return -errno;
    for (uint32_t i = 0; i < s->n_cards; i++)
        gs_clock_init((struct gs_clock *)(void *)((char *)s + s->card[i].clock_at),
                      slice_us * 1000);
    (void)munmap(s, size);
    return 0;
}

/* Make a complete file under another name and link it in: whoever opens `path` finds it whole. */
static int create(const char *path)
{
    struct config config;
    char temp[PATH_MAX];
    int rc = read_config(&config);
    if (rc)
        return rc;
    int len = snprintf(temp, sizeof(temp), "%s.%d.new", path, (int)getpid());
    if (len < 0 || (size_t)len >= sizeof(temp))
        return -ENAMETOOLONG;
    (void)unlink(temp);
    int fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return -errno;
    size_t n = sizeof(struct gs_sim_state);
    struct gs_sim_state *s = MAP_FAILED;
    if (!ftruncate(fd, (off_t)n))
        s = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (s == MAP_FAILED) {
        rc = -errno;
    } else {
        rc = fill_state(s, &config);
        uint64_t size = s->size;
        (void)munmap(s, n);
        if (!rc)
            rc = fill_clocks(fd, size, config.slice_us);
    }
    if (!rc && link(temp, path) && errno != EEXIST)
        rc = -errno;
    (void)unlink(temp);
    (void)close(fd);
    return rc;
}

static int map(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    struct stat st;
    int rc = -EPROTO;
    struct gs_sim_state *s = MAP_FAILED;
    if (fstat(fd, &st))
        rc = -errno;
    else if (st.st_size > (off_t)sizeof(*s))
        s = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (s == MAP_FAILED)
        return rc;
    if (s->magic != GS_SIM_MAGIC || s->layout != sizeof(*s) || s->size != (uint64_t)st.st_size) {
        (void)munmap(s, (size_t)st.st_size);
        return -EPROTO;
    }
    gs_fault_attach(&s->fault);
    __atomic_store_n(&gs_sim_state, s, __ATOMIC_RELEASE);
    return 0;
}

static int find_dir(void)
{
    const char *env = getenv(GS_SIM_DIR_ENV);
    int n = env && *env ? snprintf(dir, sizeof(dir), "%s", env)
                        : snprintf(dir, sizeof(dir), "/dev/shm/gpuslice-sim-%u", getuid());
    if (n < 0 || (size_t)n >= sizeof(dir))
        return -ENAMETOOLONG;
    if (mkdir(dir, 0700) && errno != EEXIST)
        return -errno;
    return 0;
}

/* Cards of another build that no process uses make room for new ones. Returns 1 if they did. */
static int set_aside(const char *path)
{
    char name[PATH_MAX];
    uint64_t magic = 0;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int ours = fd >= 0 && pread(fd, &magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) &&
               magic == GS_SIM_MAGIC;
    if (fd >= 0)
        (void)close(fd);
    if (!ours || gs_state_path(name, sizeof(name), "alive"))
        return 0;
    fd = open(name, O_RDWR | O_CLOEXEC); /* this process has no lock yet that closing could drop */
    int unused = fd < 0 || (!fcntl(fd, F_GETLK, &lock) && lock.l_type == F_UNLCK);
    if (fd >= 0)
        (void)close(fd);
    for (uint32_t i = 0; unused && i < GS_SIM_CARDS_MAX; i++) {
        char memory[32];
        (void)snprintf(memory, sizeof(memory), "memory.%u", i);
        if (!gs_state_path(name, sizeof(name), memory))
            (void)unlink(name);
    }
    return unused && !unlink(path);
}

int gs_state_open(void)
{
    char path[PATH_MAX];
    if (__atomic_load_n(&gs_sim_state, __ATOMIC_ACQUIRE))
        return 0;
    (void)pthread_mutex_lock(&open_lock);
    int rc = 0;
    if (!gs_sim_state) {
        rc = find_dir();
        if (!rc)
            rc = gs_state_path(path, sizeof(path), "cards");
        if (!rc)
            rc = map(path);
        if (rc == -EPROTO && set_aside(path))
            rc = -ENOENT;
        if (rc == -ENOENT) {
            rc = create(path);
            if (!rc)
                rc = map(path);
        }
    }
    (void)pthread_mutex_unlock(&open_lock);
    return rc;
}

int gs_state_path(char *buf, size_t n, const char *name)
{
    int len = snprintf(buf, n, "%s/%s", dir, name);
    return len < 0 || (size_t)len >= n ? -ENAMETOOLONG : 0;
}

uint64_t *gs_state_bitmap(uint32_t card)
{
    return (uint64_t *)(void *)((char *)gs_sim_state + gs_sim_state->card[card].bitmap_at);
}

void gs_state_lock(void)
{
    if (pthread_mutex_lock(&gs_sim_state->lock) == EOWNERDEAD) {
        gs_state_repair();
        gs_sim_state->repairs++;
        (void)pthread_mutex_consistent(&gs_sim_state->lock);
    }
}

void gs_state_unlock(void)
{
    (void)pthread_mutex_unlock(&gs_sim_state->lock);
}

int gs_state_group(const char *name)
{
    struct gs_sim_state *s = gs_sim_state;
    for (uint32_t i = 0; i < s->n_groups; i++)
        if (!strncmp(s->group[i].name, name, sizeof(s->group[i].name) - 1))
            return (int)i;
    if (s->n_groups == GS_SIM_GROUPS_MAX)
        return -ENOSPC;
    (void)snprintf(s->group[s->n_groups].name, sizeof(s->group[0].name), "%s", name);
    return (int)s->n_groups++;
}
