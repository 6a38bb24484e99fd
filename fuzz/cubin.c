/* A code image of any content, directly before a page that cannot be read, and as a file. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vendors/nvidia/hook/cubin.h"

#define ROOM (1u << 20)
#define WALL 65536u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t *room;
    static int fd = -1;
    struct gs_cubin_source source;

    if (room == NULL) {
        room = mmap(NULL, ROOM + WALL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (room == MAP_FAILED || mprotect(room + ROOM, WALL, PROT_NONE) != 0)
            abort();
        fd = memfd_create("image", MFD_CLOEXEC);
    }
    if (size > ROOM || fd < 0)
        return 0;
    memcpy(room + ROOM - size, data, size);
    source = gs_cubin_in_memory(room + ROOM - size);
    (void)gs_cubin_bytes(&source);

    if (ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        return 0;
    source = gs_cubin_in_file(fd);
    (void)gs_cubin_bytes(&source);
    return 0;
}
