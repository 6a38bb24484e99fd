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

/* Cut short or with bytes changed, it is refused or read, never wrongly touched (sanitizers watch).
 */
static void damage_is_survived(void **state)
{
    (void)state;
    const void *data[] = {ptx};
    const size_t size[] = {sizeof(ptx) - 1};
    void *out;
    size_t n;
    uint64_t seed = 7;
    assert_int_equal(gs_image_pack(data, size, 1, &out, &n), 0);
    for (size_t cut = 1; cut < n; cut++) {
        struct gs_image img = {0};
        char *copy = malloc(cut);
        assert_non_null(copy);
        memcpy(copy, out, cut);
        if (!gs_image_read(copy, cut, &img))
            gs_image_fini(&img);
        free(copy);
    }
    for (int i = 0; i < 3000; i++) {
        struct gs_image img = {0};
        char *copy = malloc(n);
        assert_non_null(copy);
        memcpy(copy, out, n);
        for (int k = 0; k < 3; k++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
            copy[(seed >> 33) % n] = (char)(seed >> 24);
        }
        if (!gs_image_read(copy, n, &img))
            gs_image_fini(&img);
        free(copy);
    }
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
        cmocka_unit_test(damage_is_survived),
        cmocka_unit_test(lz4_is_unpacked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
