#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "vendors/nvidia/sim/image.h"

static const char ptx[] =
    "//\n/* made\n by hand */\n.version 8.0\n.target sm_80\n.address_size 64\n"
    ".extern .global .align 4 .u32 elsewhere;\n"
    ".visible .global .align 8 .b8 table[3][4] = {1, 2, 3};\n"
    ".const .f64 factor = 0d3FF0000000000000;\n"
    ".func (.param .b32 r) helper (.param .b32 p) { .reg .b32 %x; { ret; } }\n"
    ".visible .entry first(\n .param .u8 first_0,\n .param .u64 .ptr .global .align 8 first_1,\n"
    " .param .align 16 .b8 first_2[20]\n)\n.maxntid 8, 8, 2\n.minnctapersm 1\n"
    "{ .shared .align 4 .b8 buf[256]; .shared .f32 x; bra L; L: ret; }\n"
    ".entry second { ret; }\n";

static void ptx_tells_kernels_parameters_and_variables(void **state)
{
    (void)state;
    struct gs_image img;
    assert_int_equal(gs_image_read(ptx, 0, &img), 0);
    assert_int_equal(img.n_funcs, 2);
    assert_string_equal(img.func[0].name, "first");
    assert_int_equal(img.func[0].n_params, 3);
    assert_int_equal(img.func[0].param[0].size, 1);
    assert_int_equal(img.func[0].param[1].offset, 8);
    assert_int_equal(img.func[0].param[1].size, 8);
    assert_int_equal(img.func[0].param[2].offset, 16);
    assert_int_equal(img.func[0].param[2].size, 20);
    assert_int_equal(img.func[0].max_threads, 128);
    assert_int_equal(img.func[0].shared_bytes, 260);
    assert_string_equal(img.func[1].name, "second");
    assert_int_equal(img.func[1].n_params, 0);
    assert_int_equal(img.n_vars, 2);
    assert_string_equal(img.var[0].name, "table");
    assert_int_equal(img.var[0].bytes, 12);
    assert_string_equal(img.var[1].name, "factor");
    assert_int_equal(img.var[1].bytes, 8);
    gs_image_fini(&img);
}

static void what_is_no_image_is_refused(void **state)
{
    (void)state;
    struct gs_image img;
    assert_int_equal(gs_image_read("hello world", 0, &img), -ENOEXEC);
    assert_int_equal(gs_image_read("", 1, &img), -ENOEXEC);
    assert_int_equal(gs_image_read("\x7f"
                                   "ELF",
                                   4, &img),
                     -ENOEXEC);
}

static void packed_images_are_read_again(void **state)
{
    (void)state;
    const char other[] = ".version 7.0\n.target sm_50\n.entry third(.param .u32 a) { ret; }\n";
    const void *data[] = {ptx, other};
    const size_t size[] = {sizeof(ptx) - 1, sizeof(other) - 1};
    void *out;
    size_t n;
    struct gs_image img;
    assert_int_equal(gs_image_pack(data, size, 2, &out, &n), 0);
    assert_int_equal(gs_image_length(out), n);
    assert_int_equal(gs_image_read(out, n, &img), 0);
    assert_int_equal(img.n_funcs, 3);
    assert_string_equal(img.func[2].name, "third");
    gs_image_fini(&img);
    /* behind the wrapper a compiler emits */
    const struct {
        uint32_t magic, version;
        const void *data, *unused;
    } wrapper = {0x466243b1, 1, out, NULL};
    assert_int_equal(gs_image_read(&wrapper, 0, &img), 0);
    assert_int_equal(img.n_funcs, 3);
    gs_image_fini(&img);
    free(out);
}

/* A cubin in small: one kernel with two parameters, one variable in .nv.global.init. */
struct cubin {
    Elf64_Ehdr head;
    Elf64_Sym symbol[3];
    uint32_t info[8];
    uint32_t data[2];
    char names[96];
    Elf64_Shdr section[7];
};

static uint32_t name_at(struct cubin *c, size_t *at, const char *text)
{
    uint32_t start = (uint32_t)*at;
    memcpy(c->names + *at, text, strlen(text) + 1);
    *at += strlen(text) + 1;
    return start;
}

#define SECTION(index, name, type, field)                                                          \
    c->section[index] = (Elf64_Shdr)                                                               \
    {                                                                                              \
        .sh_name = name_at(c, &at, name), .sh_type = type,                                         \
        .sh_offset = offsetof(struct cubin, field), .sh_size = sizeof(c->field), .sh_addralign = 4 \
    }

static void make_cubin(struct cubin *c)
{
    size_t at = 1;
    *c = (struct cubin){
        .head = {.e_ident = ELFMAG, .e_machine = 190, .e_shnum = 7, .e_shstrndx = 1}};
    c->head.e_ident[EI_CLASS] = ELFCLASS64;
    c->head.e_shoff = offsetof(struct cubin, section);
    c->head.e_shentsize = sizeof(Elf64_Shdr);
    SECTION(1, ".strtab", SHT_STRTAB, names);
    SECTION(2, ".symtab", SHT_SYMTAB, symbol);
    SECTION(3, ".text.kern", SHT_PROGBITS, info);
    SECTION(4, ".nv.info.kern", SHT_PROGBITS, info);
    SECTION(5, ".nv.global.init", SHT_PROGBITS, data);
    SECTION(6, ".nv.shared.kern", SHT_NOBITS, info);
    c->section[2].sh_link = 1;
    c->section[3].sh_info = 40u << 24; /* registers */
    /* EIATTR_KPARAM_INFO: index, ordinal | offset << 16, size << 18 | ... */
    const uint32_t info[8] = {0x000c1704, 0, 1 | 8 << 16, 4u << 18 | 0x1f000,
                              0x000c1704, 0, 0 | 0 << 16, 8u << 18 | 0x1f000};
    memcpy(c->info, info, sizeof(info));
    c->data[1] = 77;
    c->symbol[1] = (Elf64_Sym){
        .st_name = name_at(c, &at, "kern"), .st_info = STT_FUNC, .st_other = 0x10, .st_shndx = 3};
    c->symbol[2] = (Elf64_Sym){.st_name = name_at(c, &at, "var"),
                               .st_info = STT_OBJECT,
                               .st_shndx = 5,
                               .st_value = 4,
                               .st_size = 4};
}

static void cubins_tell_the_same(void **state)
{
    (void)state;
    struct cubin c;
    struct gs_image img;
    make_cubin(&c);
    assert_int_equal(gs_image_read(&c, sizeof(c), &img), 0);
    assert_int_equal(img.n_funcs, 1);
    assert_string_equal(img.func[0].name, "kern");
    assert_int_equal(img.func[0].n_params, 2);
    assert_int_equal(img.func[0].param[0].size, 8);
    assert_int_equal(img.func[0].param[1].offset, 8);
    assert_int_equal(img.func[0].param[1].size, 4);
    assert_int_equal(img.func[0].regs, 40);
    assert_int_equal(img.func[0].shared_bytes, sizeof(c.info));
    assert_int_equal(img.n_vars, 1);
    assert_string_equal(img.var[0].name, "var");
    assert_int_equal(img.var[0].bytes, 4);
    assert_int_equal(*(const uint32_t *)img.var[0].init, 77);
    gs_image_fini(&img);
}

/* Cut short or with bytes changed, an image is refused or read, never wrongly touched (sanitizers
 * watch). */
static void spoil(const void *image, size_t n)
{
    uint64_t seed = 7;
    for (size_t cut = 1; cut < n; cut++) {
        struct gs_image img = {0};
        char *copy = malloc(cut);
        assert_non_null(copy);
        memcpy(copy, image, cut);
        if (!gs_image_read(copy, cut, &img))
            gs_image_fini(&img);
        free(copy);
    }
    for (int i = 0; i < 5000; i++) {
        struct gs_image img = {0};
        char *copy = malloc(n);
        assert_non_null(copy);
        memcpy(copy, image, n);
        for (int k = 0; k < 3; k++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
            copy[(seed >> 33) % n] = (char)(seed >> 24);
        }
        if (!gs_image_read(copy, n, &img))
            gs_image_fini(&img);
        free(copy);
    }
}

static void damage_is_survived(void **state)
{
    (void)state;
    struct cubin c;
    make_cubin(&c);
    spoil(&c, sizeof(c));
    const void *data[] = {ptx, &c};
    const size_t size[] = {sizeof(ptx) - 1, sizeof(c)};
    void *out;
    size_t n;
    assert_int_equal(gs_image_pack(data, size, 2, &out, &n), 0);
    spoil(out, n);
    free(out);
}

/* A fat binary entry with LZ4 (block format of the LZ4 project): 11 literals, then a copy that
 * overlaps itself. */
static void lz4_is_unpacked(void **state)
{
    (void)state;
    const char *text = ".version 8 ";
    unsigned char block[64];
    size_t b = 0;
    block[b++] = 0xb0 | 15; /* 11 literals, match length 19 + more */
    memcpy(block + b, text, 11);
    b += 11;
    block[b++] = 1; /* offset 1: repeats the blank */
    block[b++] = 0;
    block[b++] = 6; /* 4 + 15 + 6 = 25 blanks */
    const char *rest = ".entry k { ret; }";
    block[b++] = 0xf0;
    block[b++] = (unsigned char)(strlen(rest) - 15);
    memcpy(block + b, rest, strlen(rest));
    b += strlen(rest);
    struct {
        uint32_t magic;
        uint16_t version, header;
        uint64_t size;
        uint16_t kind, entry_version;
        uint32_t entry_header;
        uint64_t entry_size;
        uint32_t packed, options;
        uint16_t minor, major;
        uint32_t arch, name, name_size;
        uint64_t flags, zero, full;
        unsigned char data[64];
    } fat = {.magic = 0xba55ed50,
             .version = 1,
             .header = 16,
             .size = 128,
             .kind = 1,
             .entry_version = 0x101,
             .entry_header = 64,
             .entry_size = 64,
             .packed = (uint32_t)b,
             .flags = 0x2011,
             .full = 11 + 25 + strlen(rest)};
    memcpy(fat.data, block, b);
    struct gs_image img;
    assert_int_equal(gs_image_read(&fat, sizeof(fat), &img), 0);
    assert_false(img.opaque);
    assert_int_equal(img.n_funcs, 1);
    assert_string_equal(img.func[0].name, "k");
    gs_image_fini(&img);
    /* what cannot be unpacked is taken for code of unknown content */
    fat.flags = 0x8011;
    assert_int_equal(gs_image_read(&fat, sizeof(fat), &img), 0);
    assert_true(img.opaque);
    gs_image_fini(&img);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ptx_tells_kernels_parameters_and_variables),
        cmocka_unit_test(what_is_no_image_is_refused),
        cmocka_unit_test(packed_images_are_read_again),
        cmocka_unit_test(cubins_tell_the_same),
        cmocka_unit_test(damage_is_survived),
        cmocka_unit_test(lz4_is_unpacked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
