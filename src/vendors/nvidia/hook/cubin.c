#include "vendors/nvidia/hook/cubin.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "vendors/nvidia/hook/ptx.h"

/* Fat binary: a wrapper that points to a container, a header and entries one after the other.
 * Source: fatbinary_section.h of the CUDA toolkit (wrapper); the container's layout as the
 * toolkit's `cuobjdump` lists it: kind, header size, payload size. */
#define WRAPPER_MAGIC   0x466243b1u
#define CONTAINER_MAGIC 0xba55ed50u

#define ENTRY_PTX 1u

#define MAX_SECTIONS 65536u
#define MAX_ENTRIES  256u
#define BATCH        32u

struct wrapper {
    uint32_t magic;
    uint32_t version;
    uint64_t data;
    uint64_t filename;
};

struct container {
    uint32_t magic;
    uint16_t version;
    uint16_t header_bytes;
    uint64_t payload_bytes;
};

struct entry {
    uint16_t kind;
    uint16_t version;
    uint32_t header_bytes;
    uint64_t payload_bytes;
};

static int read_memory(const struct gs_cubin_source *source, uint64_t offset, void *ret_bytes,
                       uint32_t n)
{
    struct iovec to = {ret_bytes, n};
    struct iovec from = {(void *)(uintptr_t)(source->base + offset), n};
    ssize_t got;

    if (offset > UINT64_MAX - source->base)
        return -EFAULT;
    /* A plain load would kill the program on an image that lies about its size. */
    got = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
    return got == (ssize_t)n ? 0 : -EFAULT;
}

static int read_file(const struct gs_cubin_source *source, uint64_t offset, void *ret_bytes,
                     uint32_t n)
{
    if (offset > INT64_MAX)
        return -EFAULT;
    return pread((int)source->base, ret_bytes, n, (off_t)offset) == (ssize_t)n ? 0 : -EFAULT;
}

struct gs_cubin_source gs_cubin_in_memory(const void *image)
{
    return (struct gs_cubin_source){.read = read_memory, .base = (uintptr_t)image};
}

struct gs_cubin_source gs_cubin_in_file(int fd)
{
    return (struct gs_cubin_source){.read = read_file, .base = (uint64_t)fd};
}

/* Sections that the loader brings to the card. */
static uint64_t section_bytes(const Elf64_Shdr *section)
{
    if (section->sh_type == SHT_NOBITS)
        return section->sh_size;
    return (section->sh_flags & SHF_ALLOC) != 0 && section->sh_type == SHT_PROGBITS
               ? section->sh_size
               : 0;
}

static uint64_t add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* The cubin that begins at `at`; 0 when it is none. */
static uint64_t elf_bytes(const struct gs_cubin_source *source, uint64_t at)
{
    Elf64_Ehdr head;
    Elf64_Shdr sections[BATCH];
    uint64_t sum = 0;
    uint32_t count;

    if (source->read(source, at, &head, sizeof(head)) < 0 ||
        memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_shentsize != sizeof(Elf64_Shdr) || head.e_shoff > UINT64_MAX - at)
        return 0;
    count = head.e_shnum;
    /* more sections than the field can say: the first one's size says it */
    if (count == 0 && head.e_shoff != 0) {
        if (source->read(source, at + head.e_shoff, sections, sizeof(sections[0])) < 0)
            return 0;
        count = sections[0].sh_size > MAX_SECTIONS ? MAX_SECTIONS : (uint32_t)sections[0].sh_size;
    }
    for (uint32_t first = 0; first < count; first += BATCH) {
        uint32_t n = count - first < BATCH ? count - first : BATCH;
        uint64_t offset = add(at + head.e_shoff, (uint64_t)first * sizeof(Elf64_Shdr));

        if (source->read(source, offset, sections, n * (uint32_t)sizeof(Elf64_Shdr)) < 0)
            return 0;
        for (uint32_t i = 0; i < n; i++)
            sum = add(sum, section_bytes(&sections[i]));
    }
    return sum;
}

/* The smallest of its cubins: which one the driver takes is the driver's business. */
static uint64_t container_bytes(const struct gs_cubin_source *source)
{
    struct container head;
    uint64_t at;
    uint64_t end;
    uint64_t least = 0;

    if (source->read(source, 0, &head, sizeof(head)) < 0 || head.magic != CONTAINER_MAGIC)
        return 0;
    at = head.header_bytes;
    end = add(at, head.payload_bytes);
    for (uint32_t i = 0; i < MAX_ENTRIES && at < end; i++) {
        struct entry entry;
        uint64_t bytes;

        if (source->read(source, at, &entry, sizeof(entry)) < 0 ||
            entry.header_bytes < sizeof(entry))
            break;
        bytes = entry.kind == ENTRY_PTX ? gs_ptx_bytes(source, add(at, entry.header_bytes))
                                        : elf_bytes(source, add(at, entry.header_bytes));
        if (bytes != 0 && (least == 0 || bytes < least))
            least = bytes;
        at = add(at, add(entry.header_bytes, entry.payload_bytes));
    }
    return least;
}

uint64_t gs_cubin_bytes(const struct gs_cubin_source *source)
{
    struct wrapper wrapper;
    uint32_t magic = 0;

    if (source->read(source, 0, &magic, sizeof(magic)) < 0)
        return 0;
    if (magic == CONTAINER_MAGIC)
        return container_bytes(source);
    if (magic != WRAPPER_MAGIC)
        return memcmp(&magic, ELFMAG, SELFMAG) == 0 ? elf_bytes(source, 0)
                                                    : gs_ptx_bytes(source, 0);
    /* the pointer in a wrapper means something in memory only */
    if (source->read != read_memory || source->read(source, 0, &wrapper, sizeof(wrapper)) < 0)
        return 0;
    return container_bytes(&(struct gs_cubin_source){.read = source->read, .base = wrapper.data});
}
