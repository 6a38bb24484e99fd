/* HAMi's region with any content, in both layouts: input bytes overwrite a good one, two bytes of
 * place before each run of eight. The reader must keep within bounds, and names are text. And the
 * same input as a line of /proc/<pid>/cgroup. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "monitor/cgroup.h"
#include "monitor/region.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t *open_file(int *ret_fd)
{
    uint8_t *base;

    *ret_fd = memfd_create("region", MFD_CLOEXEC);
    if (*ret_fd < 0 || ftruncate(*ret_fd, GS_HAMI_REGION_BYTES) != 0)
        abort();
    base = mmap(NULL, GS_HAMI_REGION_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, *ret_fd, 0);
    if (base == MAP_FAILED)
        abort();
    return base;
}

/** The head, the first slots of either layout, and their tails. */
static void scatter(uint8_t *base, const uint8_t *data, size_t size)
{
    static const uint32_t regions[] = {
        0, 1592, 1856, 3804, GS_REGION_OLD_BYTES - 64, GS_HAMI_REGION_BYTES - 64};

    for (; size >= 10; data += 10, size -= 10) {
        uint32_t at = regions[data[0] % 6] + 8 * (uint32_t)data[1];

        if (at + 8 <= GS_HAMI_REGION_BYTES)
            memcpy(base + at, data + 2, 8);
    }
}

static void check(int fd)
{
    static struct gs_region region;

    if (gs_region_read(fd, &region) < 0)
        return;
    if (region.n_devices > GS_HAMI_DEVICES || region.n_processes > GS_HAMI_SLOTS)
        abort();
    for (uint32_t i = 0; i < region.n_devices; i++)
        if (strlen(region.device[i].uuid) > GS_REGION_UUID || region.device[i].core_pct > 100)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int32_t head[] = {GS_HAMI_MAGIC, GS_HAMI_MAJOR};
    static uint8_t *base;
    static int fd;
    struct gs_cgroup group;

    if (base == NULL)
        base = open_file(&fd);
    memset(base, 0, 8192);
    memset(base + GS_REGION_OLD_BYTES - 64, 0, 64);
    memset(base + GS_HAMI_REGION_BYTES - 64, 0, 64);
    memcpy(base, head, sizeof(head));
    scatter(base, data, size);
    check(fd);
    if (ftruncate(fd, GS_REGION_OLD_BYTES) != 0)
        abort();
    check(fd);
    if (ftruncate(fd, GS_HAMI_REGION_BYTES) != 0)
        abort();
    if (gs_cgroup_parse((struct gs_str){(const char *)data, size}, &group) == 0 &&
        (strlen(group.pod_uid) >= sizeof(group.pod_uid) ||
         strlen(group.container_id) >= sizeof(group.container_id)))
        abort();
    return 0;
}
