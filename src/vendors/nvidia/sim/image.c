#include "vendors/nvidia/sim/image.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vendors/nvidia/sim/image_ptx.h"

#define WRAPPER_MAGIC 0x466243b1u
#define FATBIN_MAGIC  0xba55ed50u
#define KIND_PTX      1
#define KIND_ELF      2
#define FLAG_LZ4      0x2000u
#define FLAG_ZSTD     0x8000u
#define IMAGE_MAX     (1u << 30)
/* st_other bit of a kernel, in cubins. */
#define STO_ENTRY 0x10
/* .nv.info attribute codes (EIATTR_*). */
#define INFO_FORMAT_SVAL 0x04
#define INFO_PARAM       0x17
#define INFO_REGCOUNT    0x2f
#define INFO_MAX_THREADS 0x05
#define INFO_FRAME_SIZE  0x11

struct wrapper {
    uint32_t magic;
    uint32_t version;
    const void *data;
    const void *unused;
};

struct fat_header {
    uint32_t magic;
    uint16_t version;
    uint16_t header_size;
    uint64_t size; /* of all entries */
};

struct fat_entry {
    uint16_t kind;
    uint16_t version;
    uint32_t header_size;
    uint64_t size;
    uint32_t packed_size;
    uint32_t options;
    uint16_t minor;
    uint16_t major;
    uint32_t arch;
    uint32_t name;
    uint32_t name_size;
    uint64_t flags;
    uint64_t zero;
    uint64_t full_size;
};

static char *copy_name(const char *s, size_t n)
{
    char *p = malloc(n + 1);
    if (p) {
        memcpy(p, s, n);
        p[n] = 0;
    }
    return p;
}

struct gs_image_func *gs_image_ptx_func(struct gs_image *img, const char *name, size_t n)
{
    for (uint32_t i = 0; i < img->n_funcs; i++)
        if (strlen(img->func[i].name) == n && !memcmp(img->func[i].name, name, n))
            return &img->func[i];
    struct gs_image_func *f = realloc(img->func, (img->n_funcs + 1) * sizeof(*f));
    if (!f)
        return NULL;
    img->func = f;
    f += img->n_funcs;
    *f = (struct gs_image_func){.regs = 32, .max_threads = 1024, .name = copy_name(name, n)};
    if (!f->name)
        return NULL;
    img->n_funcs++;
    return f;
}

int gs_image_ptx_var(struct gs_image *img, const struct gs_image_var *v, size_t name_n)
{
    for (uint32_t i = 0; i < img->n_vars; i++)
        if (strlen(img->var[i].name) == name_n && !memcmp(img->var[i].name, v->name, name_n))
            return 0;
    struct gs_image_var *a = realloc(img->var, (img->n_vars + 1) * sizeof(*a));
    if (!a)
        return -ENOMEM;
    img->var = a;
    a[img->n_vars] = *v;
    a[img->n_vars].name = copy_name(v->name, name_n);
    a[img->n_vars].init = NULL;
    if (!a[img->n_vars].name)
        return -ENOMEM;
    /* Initial values are copied: the image may be a temporary one, unpacked. */
    if (v->init) {
        void *p = malloc(v->bytes);
        if (!p) {
            free(a[img->n_vars].name);
            return -ENOMEM;
        }
        memcpy(p, v->init, v->bytes);
        a[img->n_vars].init = p;
    }
    img->n_vars++;
    return 0;
}

/* ---- ELF ---- */

struct elf_view {
    const uint8_t *p;
    size_t size;
    const Elf64_Shdr *sh;
    uint16_t n;
    const char *names;
    size_t names_size;
};

static const char *section_name(const struct elf_view *e, const Elf64_Shdr *s)
{
    return s->sh_name < e->names_size ? e->names + s->sh_name : "";
}

static int section_is_inside(const struct elf_view *e, const Elf64_Shdr *s)
{
    return s->sh_type == SHT_NOBITS ||
           (s->sh_offset <= e->size && s->sh_size <= e->size - s->sh_offset);
}

/* Bytes of an ELF image by its headers, all of which lie in `size` bytes (0: unknown); 0 if it is
 * none. */
static size_t elf_length(const uint8_t *p, size_t size)
{
    const Elf64_Ehdr *h = (const Elf64_Ehdr *)(const void *)p;
    if (memcmp(p, ELFMAG, SELFMAG) != 0 || p[EI_CLASS] != ELFCLASS64 ||
        h->e_shentsize != sizeof(Elf64_Shdr) || h->e_shoff > IMAGE_MAX ||
        (uintptr_t)(p + h->e_shoff) % _Alignof(Elf64_Shdr))
        return 0;
    size_t end = h->e_shoff + (size_t)h->e_shnum * sizeof(Elf64_Shdr);
    if (size && end > size)
        return 0;
    size_t ph = h->e_phoff + (size_t)h->e_phnum * h->e_phentsize;
    if (h->e_phoff <= IMAGE_MAX && ph > end)
        end = ph;
    const Elf64_Shdr *s = (const Elf64_Shdr *)(const void *)(p + h->e_shoff);
    for (uint16_t i = 0; i < h->e_shnum; i++)
        if (s[i].sh_type != SHT_NOBITS && s[i].sh_offset < IMAGE_MAX && s[i].sh_size < IMAGE_MAX &&
            s[i].sh_offset + s[i].sh_size > end)
            end = s[i].sh_offset + s[i].sh_size;
    return end;
}

static int elf_open(const void *data, size_t size, struct elf_view *e)
{
    const Elf64_Ehdr *h = data;
    size_t need = size >= sizeof(*h) || !size ? elf_length(data, size) : 0;
    if (!need)
        return -ENOEXEC;
    if (size && need > size)
        return -EBADMSG;
    *e = (struct elf_view){.p = data, .size = need, .n = h->e_shnum};
    e->sh = (const Elf64_Shdr *)(const void *)(e->p + h->e_shoff);
    if (h->e_shstrndx >= e->n || e->sh[h->e_shstrndx].sh_type == SHT_NOBITS ||
        !section_is_inside(e, &e->sh[h->e_shstrndx]))
        return -EBADMSG;
    e->names = (const char *)e->p + e->sh[h->e_shstrndx].sh_offset;
    e->names_size = e->sh[h->e_shstrndx].sh_size;
    if (!e->names_size || e->names[e->names_size - 1])
        return -EBADMSG;
    return 0;
}

/* Attributes of one kernel: records (format, code, u16 length or value). */
static void elf_info(const uint8_t *p, size_t n, struct gs_image_func *f)
{
    while (n >= 4) {
        uint16_t len = (uint16_t)(p[2] | p[3] << 8);
        uint32_t w[3] = {0};
        if (p[0] != INFO_FORMAT_SVAL) {
            p += 4;
            n -= 4;
            continue;
        }
        if (len > n - 4)
            return;
        memcpy(w, p + 4, len < sizeof(w) ? len : sizeof(w));
        if (p[1] == INFO_PARAM && len == 12) {
            uint32_t ordinal = w[1] & 0xffff;
            if (ordinal < GS_IMAGE_PARAMS_MAX) {
                f->param[ordinal] =
                    (struct gs_image_param){.offset = w[1] >> 16, .size = w[2] >> 18};
                if (f->n_params <= ordinal)
                    f->n_params = ordinal + 1;
            }
        } else if (p[1] == INFO_MAX_THREADS && len == 12) {
            uint64_t t = (uint64_t)w[0] * w[1] * w[2];
            if (t && t <= 1024)
                f->max_threads = (int32_t)t;
        }
        p += 4 + len;
        n -= 4 + (size_t)len;
    }
}

static void elf_func_details(const struct elf_view *e, struct gs_image_func *f)
{
    for (uint16_t i = 0; i < e->n; i++) {
        const Elf64_Shdr *s = &e->sh[i];
        const char *name = section_name(e, s);
        if (!section_is_inside(e, s))
            continue;
        if (!strncmp(name, ".nv.info.", 9) && !strcmp(name + 9, f->name) &&
            s->sh_type != SHT_NOBITS)
            elf_info(e->p + s->sh_offset, s->sh_size, f);
        else if (!strncmp(name, ".nv.shared.", 11) && !strcmp(name + 11, f->name))
            f->shared_bytes = (int32_t)s->sh_size;
        else if (!strncmp(name, ".text.", 6) && !strcmp(name + 6, f->name) && s->sh_info >> 24)
            f->regs = (int32_t)(s->sh_info >> 24);
    }
}

static int elf_symbol(const struct elf_view *e, const Elf64_Sym *y, const char *name,
                      struct gs_image *img)
{
    int type = ELF64_ST_TYPE(y->st_info);
    if (type == STT_FUNC && (y->st_other & STO_ENTRY)) {
        struct gs_image_func *f = gs_image_ptx_func(img, name, strlen(name));
        if (!f)
            return -ENOMEM;
        elf_func_details(e, f);
        return 0;
    }
    if (type != STT_OBJECT || !y->st_size || y->st_shndx >= e->n)
        return 0;
    const Elf64_Shdr *s = &e->sh[y->st_shndx];
    const char *section = section_name(e, s);
    int is_global = !strncmp(section, ".nv.global", 10);
    if (!is_global && strncmp(section, ".nv.constant3", 13) != 0)
        return 0;
    struct gs_image_var v = {.name = (char *)(uintptr_t)name,
                             .bytes = y->st_size,
                             .align = s->sh_addralign ? s->sh_addralign : 1};
    if (s->sh_type != SHT_NOBITS && section_is_inside(e, s) && y->st_value <= s->sh_size &&
        y->st_size <= s->sh_size - y->st_value)
        v.init = e->p + s->sh_offset + y->st_value;
    return gs_image_ptx_var(img, &v, strlen(name));
}

static int read_elf(const void *data, size_t size, struct gs_image *img)
{
    struct elf_view e;
    int rc = elf_open(data, size, &e);
    for (uint16_t i = 0; !rc && i < e.n; i++) {
        const Elf64_Shdr *s = &e.sh[i];
        if (s->sh_type != SHT_SYMTAB || s->sh_link >= e.n || !section_is_inside(&e, s))
            continue;
        const Elf64_Shdr *t = &e.sh[s->sh_link];
        const Elf64_Sym *y = (const Elf64_Sym *)(const void *)(e.p + s->sh_offset);
        if (t->sh_type == SHT_NOBITS || !section_is_inside(&e, t) || !t->sh_size ||
            e.p[t->sh_offset + t->sh_size - 1] || s->sh_offset % _Alignof(Elf64_Sym))
            return -EBADMSG;
        for (size_t k = 0; !rc && k < s->sh_size / sizeof(*y); k++)
            if (y[k].st_name < t->sh_size)
                rc = elf_symbol(&e, &y[k], (const char *)e.p + t->sh_offset + y[k].st_name, img);
    }
    return rc;
}

/* ---- LZ4 block (format: lz4_Block_format.md of the LZ4 project) ---- */

static size_t lz4_length(const uint8_t **p, const uint8_t *end, size_t n)
{
    if (n != 15)
        return n;
    while (*p < end) {
        uint8_t b = *(*p)++;
        n += b;
        if (b != 255)
            break;
    }
    return n;
}

/* Returns the number of bytes written, or 0 when the block is damaged. */
static size_t lz4_unpack(const uint8_t *p, size_t n, uint8_t *out, size_t cap)
{
    const uint8_t *end = p + n;
    size_t at = 0;
    while (p < end) {
        uint8_t token = *p++;
        size_t lit = lz4_length(&p, end, token >> 4);
        if (lit > (size_t)(end - p) || lit > cap - at)
            return 0;
        memcpy(out + at, p, lit);
        at += lit;
        p += lit;
        if (end - p < 2)
            break;
        size_t back = (size_t)(p[0] | p[1] << 8);
        p += 2;
        size_t len = lz4_length(&p, end, token & 15) + 4;
        if (!back || back > at || len > cap - at)
            return 0;
        /* Overlapping by design: byte by byte. */
        for (size_t i = 0; i < len; i++, at++)
            out[at] = out[at - back];
    }
    return at;
}

/* ---- fat binaries ---- */

static int read_payload(const struct fat_entry *f, const uint8_t *p, size_t n, struct gs_image *img)
{
    if (f->kind == KIND_ELF) {
        img->ptx_only = 0;
        return read_elf(p, n, img);
    }
    if (f->kind == KIND_PTX)
        return gs_image_ptx_read((const char *)p, n, img);
    img->opaque = 1; /* LTO-IR and whatever comes next */
    return 0;
}

static int read_entry(const struct fat_entry *f, const uint8_t *payload, struct gs_image *img)
{
    if (!(f->flags & (FLAG_LZ4 | FLAG_ZSTD)))
        return read_payload(f, payload, f->size, img);
    if (!(f->flags & FLAG_LZ4) || f->full_size > IMAGE_MAX || f->packed_size > f->size) {
        img->opaque = 1;
        return 0;
    }
    uint8_t *buf = malloc(f->full_size + 1);
    if (!buf)
        return -ENOMEM;
    size_t n = lz4_unpack(payload, f->packed_size, buf, f->full_size);
    int rc = 0;
    if (n) {
        buf[n] = 0;
        rc = read_payload(f, buf, n, img);
    } else {
        img->opaque = 1;
    }
    free(buf);
    return rc;
}

static int read_fatbin(const uint8_t *p, size_t size, struct gs_image *img)
{
    const struct fat_header *h = (const struct fat_header *)(const void *)p;
    if (size && size < sizeof(*h))
        return -EBADMSG;
    if (h->header_size < sizeof(*h) || h->size > IMAGE_MAX ||
        (size && h->header_size + h->size > size))
        return -EBADMSG;
    const uint8_t *at = p + h->header_size, *end = at + h->size;
    while ((size_t)(end - at) >= sizeof(struct fat_entry)) {
        struct fat_entry f;
        memcpy(&f, at, sizeof(f));
        if (f.header_size < sizeof(f) || f.header_size > (size_t)(end - at) ||
            f.size > (size_t)(end - at) - f.header_size)
            return -EBADMSG;
        int rc = read_entry(&f, at + f.header_size, img);
        if (rc)
            return rc;
        at += f.header_size + f.size;
    }
    return 0;
}

size_t gs_image_length(const void *data)
{
    uint32_t magic;
    memcpy(&magic, data, sizeof(magic));
    if (magic == FATBIN_MAGIC) {
        const struct fat_header *h = data;
        return h->size > IMAGE_MAX ? 0 : h->header_size + h->size;
    }
    if (!memcmp(data, ELFMAG, SELFMAG))
        return elf_length(data, 0);
    return strnlen(data, IMAGE_MAX);
}

int gs_image_read(const void *data, size_t size, struct gs_image *ret)
{
    struct gs_image img = {.ptx_only = 1};
    uint32_t magic = 0;
    int rc;
    if (size && size < sizeof(magic))
        return -ENOEXEC;
    memcpy(&magic, data, sizeof(magic));
    if (magic == WRAPPER_MAGIC && (!size || size >= sizeof(struct wrapper))) {
        const struct wrapper *w = data;
        return w->data ? gs_image_read(w->data, 0, ret) : -EBADMSG;
    }
    if (magic == FATBIN_MAGIC) {
        rc = read_fatbin(data, size, &img);
    } else if (!memcmp(&magic, ELFMAG, SELFMAG)) {
        img.ptx_only = 0;
        rc = read_elf(data, size, &img);
    } else {
        rc = gs_image_ptx_read(data, size ? size : strnlen(data, IMAGE_MAX), &img);
    }
    if (rc)
        gs_image_fini(&img);
    else
        *ret = img;
    return rc;
}

void gs_image_fini(struct gs_image *img)
{
    for (uint32_t i = 0; i < img->n_funcs; i++)
        free(img->func[i].name);
    for (uint32_t i = 0; i < img->n_vars; i++) {
        free(img->var[i].name);
        free((void *)(uintptr_t)img->var[i].init);
    }
    free(img->func);
    free(img->var);
    *img = (struct gs_image){0};
}

int gs_image_pack(const void *const *data, const size_t *size, uint32_t n, void **ret_data,
                  size_t *ret_size)
{
    size_t total = sizeof(struct fat_header);
    for (uint32_t i = 0; i < n; i++)
        total += sizeof(struct fat_entry) + ((size[i] + 8) & ~(size_t)7);
    uint8_t *buf = calloc(1, total);
    if (!buf)
        return -ENOMEM;
    struct fat_header h = {
        .magic = FATBIN_MAGIC, .version = 1, .header_size = sizeof(h), .size = total - sizeof(h)};
    memcpy(buf, &h, sizeof(h));
    uint8_t *at = buf + sizeof(h);
    for (uint32_t i = 0; i < n; i++) {
        int is_elf = size[i] >= SELFMAG && !memcmp(data[i], ELFMAG, SELFMAG);
        struct fat_entry f = {.kind = is_elf ? KIND_ELF : KIND_PTX,
                              .version = 0x101,
                              .header_size = sizeof(f),
                              .size = (size[i] + 8) & ~(size_t)7,
                              .arch = 80,
                              .flags = 0x11};
        memcpy(at, &f, sizeof(f));
        memcpy(at + sizeof(f), data[i], size[i]);
        at += sizeof(f) + f.size;
    }
    *ret_data = buf;
    *ret_size = total;
    return 0;
}
