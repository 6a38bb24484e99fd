#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake_card.h"
#include "vendors/nvidia/hook/array.h"
#include "vendors/nvidia/hook/bodies.h"
#include "vendors/nvidia/hook/cubin.h"

#define MIB (1ull << 20)

/* A cubin: code, a table that is not loaded, variables. */
struct image {
    Elf64_Ehdr head;
    Elf64_Shdr section[4];
};

static struct image image_of(uint64_t globals)
{
    struct image image;

    memset(&image, 0, sizeof(image));
    memcpy(image.head.e_ident, ELFMAG, SELFMAG);
    image.head.e_ident[EI_CLASS] = ELFCLASS64;
    image.head.e_shoff = offsetof(struct image, section);
    image.head.e_shentsize = sizeof(Elf64_Shdr);
    image.head.e_shnum = 4;
    image.section[1] =
        (Elf64_Shdr){.sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC, .sh_size = 1000};
    image.section[2] = (Elf64_Shdr){.sh_type = SHT_PROGBITS, .sh_size = 77777}; /* debug */
    image.section[3] =
        (Elf64_Shdr){.sh_type = SHT_NOBITS, .sh_flags = SHF_ALLOC, .sh_size = globals};
    return image;
}

static uint64_t size_of(const void *image)
{
    struct gs_cubin_source source = gs_cubin_in_memory(image);

    return gs_cubin_bytes(&source);
}

static void a_cubin(void **state)
{
    struct image image = image_of(512 * MIB);
    char path[] = "/tmp/gs-cubin-XXXXXX";
    int fd = mkstemp(path);
    struct gs_cubin_source source = gs_cubin_in_file(fd);

    (void)state;
    assert_int_equal(size_of(&image), 512 * MIB + 1000);
    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(write(fd, &image, sizeof(image)), sizeof(image));
    assert_int_equal(gs_cubin_bytes(&source), 512 * MIB + 1000);
    assert_int_equal(ftruncate(fd, sizeof(image) - 1), 0);
    assert_int_equal(gs_cubin_bytes(&source), 0);
    assert_int_equal(ftruncate(fd, 3), 0);
    assert_int_equal(gs_cubin_bytes(&source), 0);
    assert_int_equal(close(fd), 0);
}

/* Sizes by hand from the PTX text. */
static void ptx_variables(void **state)
{
    (void)state;
    assert_int_equal(size_of(".version 7.0\n.visible .global .align 16 .b8 big[536870912];\n"),
                     512 * MIB);
    assert_int_equal(
        size_of(
            "// made by hand\n.version 8.0\n.target sm_90\n.address_size 64\n"
            ".global .v4 .f32 a[10], b; .const .align 8 .f64 c[2][3] = {{1, 2, 3}, {4, 5, 6}};\n"
            ".extern .global .b64 elsewhere[1000];\n.extern .shared .b8 dynamic[];\n"
            ".visible .entry k(.param .u64 .ptr .global .align 8 p)\n"
            "{ .reg .b32 %r<9>; .local .b8 frame[4096]; ld.global.u32 %r1, [p]; ret; }\n"
            "/* .global .b8 no[77]; */ .weak .global .u16 last[0x10];"),
        16 * 10 + 16 + 8 * 6 + 2 * 16);
    assert_int_equal(size_of(".version 7.0\n.global .b8 o[010], b[0b11], u[5U], x[0XfU], none[0];"),
                     8 + 3 + 5 + 15);
    assert_int_equal(size_of(".version 7.0\n.global .b64 huge[0xffffffffffffffff];"), UINT64_MAX);
    assert_int_equal(size_of(".version 7.0\n.global .b8 cut["), 1);
    assert_int_equal(size_of(".version 7.0\n.file 1 \"quote"), 0);
    assert_int_equal(size_of(".global .b8 without_version[100];"), 0);
    assert_int_equal(size_of("no code at all"), 0);
}

/* Images that lie; the last page before one that cannot be read. */
static void hostile_images(void **state)
{
    char *pages = mmap(NULL, 2 * 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct image image = image_of(UINT64_MAX);
    struct image *at;

    (void)state;
    assert_ptr_not_equal(pages, MAP_FAILED);
    assert_int_equal(mprotect(pages + 65536, 65536, PROT_NONE), 0);
    assert_int_equal(size_of(&image), UINT64_MAX); /* saturates */
    for (size_t n = 0; n < sizeof(image); n += 4) {
        memcpy(pages + 65536 - n, &image, n);
        assert_int_equal(size_of(pages + 65536 - n), 0);
    }
    at = (struct image *)(void *)(pages + 65536 - sizeof(image));
    *at = image_of(MIB);
    at->head.e_shoff = UINT64_MAX - 8;
    assert_int_equal(size_of(at), 0);
    at->head.e_shoff = 1ull << 62;
    assert_int_equal(size_of(at), 0);
    *at = image_of(MIB);
    at->head.e_shnum = 5;
    assert_int_equal(size_of(at), 0);
    at->head.e_shnum = 0; /* "see section 0", which says a great many */
    at->section[0].sh_size = UINT64_MAX;
    assert_int_equal(size_of(at), 0);
    at->head.e_shentsize = 1;
    assert_int_equal(size_of(at), 0);
    assert_int_equal(size_of("//\n.version 8.0\n.target sm_80\n"), 0);
    assert_int_equal(size_of((void *)8), 0);
    assert_int_equal(munmap(pages, 2 * 65536), 0);
}

static void a_fat_binary(void **state)
{
    struct {
        uint32_t magic;
        uint16_t version, header_bytes;
        uint64_t payload_bytes;
        struct {
            uint16_t kind, version;
            uint32_t header_bytes;
            uint64_t payload_bytes;
            struct image image;
        } entry[2];
    } fat = {.magic = 0xba55ed50u, .version = 1, .header_bytes = 16};
    struct {
        uint32_t magic, version;
        const void *data;
        const void *name;
    } wrapper = {0x466243b1u, 1, &fat, NULL};

    (void)state;
    fat.payload_bytes = sizeof(fat.entry);
    for (int i = 0; i < 2; i++) {
        fat.entry[i].kind = 2;
        fat.entry[i].header_bytes = 16;
        fat.entry[i].payload_bytes = sizeof(struct image);
        fat.entry[i].image = image_of(i == 0 ? 9 * MIB : 5 * MIB);
    }
    assert_int_equal(size_of(&fat), 5 * MIB + 1000);
    assert_int_equal(size_of(&wrapper), 5 * MIB + 1000);
    memset(&fat.entry[1].image, 0x55, 4); /* compressed */
    assert_int_equal(size_of(&wrapper), 9 * MIB + 1000);
    fat.entry[0].header_bytes = 0;
    assert_int_equal(size_of(&wrapper), 0);
    fat.entry[0].header_bytes = 16;
    fat.entry[0].payload_bytes = UINT64_MAX - 3;
    assert_int_equal(size_of(&wrapper), 9 * MIB + 1000);
    wrapper.data = (void *)16;
    assert_int_equal(size_of(&wrapper), 0);
}

static void a_module_is_refused_before_it_is_loaded(void **state)
{
    struct image image = image_of(512 * MIB);
    CUmodule module;

    (void)state;
    assert_int_equal(gs_nv_module_load_data(fake_module_load, &module, &image),
                     CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.calls, 0);
    image = image_of(3 * MIB);
    fake.module_bytes = 4 * MIB;
    assert_int_equal(gs_nv_module_load_data(fake_module_load, &module, &image), CUDA_SUCCESS);
    assert_int_equal(fake.device[0].extra, 4 * MIB);
    fake_assert_books_match(0);
    assert_int_equal(gs_nv_module_unload(fake_module_unload, module), CUDA_SUCCESS);
    assert_int_equal(fake.device[0].extra, 0);
    /* the card lost nothing: the driver found room in what the context has */
    fake.module_bytes = 0;
    assert_int_equal(gs_nv_module_load_data(fake_module_load, &module, &image), CUDA_SUCCESS);
    assert_int_equal(fake.device[0].extra, 0);
}

static void a_module_of_unknown_size_is_measured(void **state)
{
    CUmodule module;

    (void)state;
    fake.module_bytes = 10 * MIB;
    for (int knows = 0; knows < 2; knows++) {
        fake.nvml_knows_pid = knows;
        assert_int_equal(gs_nv_module_load_data(fake_module_load, &module, "//ptx"), CUDA_SUCCESS);
        assert_int_equal(fake.device[0].extra, 10 * MIB);
        assert_int_equal(gs_nv_module_unload(fake_module_unload, module), CUDA_SUCCESS);
        assert_int_equal(fake.device[0].extra, 0);
    }
    fake.module_bytes = 100 * MIB;
    assert_int_equal(gs_nv_module_load_data(fake_module_load, &module, "//ptx"),
                     CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.device[0].extra, 0);
    assert_int_equal(fake.device[0].taken, 0);
    assert_int_equal(gs_nv_module_load_data(fake_module_load, NULL, NULL),
                     CUDA_ERROR_INVALID_VALUE);
}

static void a_failing_load_leaves_nothing(void **state)
{
    struct image image = image_of(3 * MIB);
    CUmodule module;

    (void)state;
    fake.module_bytes = 4 * MIB;
    fake.fail_at = 1;
    assert_int_equal(gs_nv_module_load_data(fake_module_load, &module, &image),
                     CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(fake.device[0].extra, 0);
    assert_int_equal(gs_nv_module_load_data(fake_module_load, &module, &image), CUDA_SUCCESS);
    fake.fail_at = fake.calls + 1;
    assert_int_equal(gs_nv_module_unload(fake_module_unload, module), CUDA_ERROR_LAUNCH_FAILED);
    fake_assert_books_match(0);
    assert_int_equal(gs_nv_module_unload(fake_module_unload, module), CUDA_SUCCESS);
    assert_int_equal(fake.device[0].extra, 0);
}

static void array_sizes(void **state)
{
    /* Source: texel sizes of the CUDA Driver API, CUarray_format; the last column by hand. */
    static const struct {
        CUDA_ARRAY3D_DESCRIPTOR desc;
        unsigned int levels;
        uint64_t bytes;
    } rows[] = {
        {{1024, 0, 0, CU_AD_FORMAT_FLOAT, 1, 0}, 1, 4096},
        {{1024, 512, 0, CU_AD_FORMAT_FLOAT, 4, 0}, 1, 1024 * 512 * 16},
        {{64, 64, 64, CU_AD_FORMAT_UNSIGNED_INT8, 2, 0}, 1, 64 * 64 * 64 * 2},
        {{64, 64, 64, CU_AD_FORMAT_HALF, 1, 0}, 1, 64 * 64 * 64 * 2},
        {{64, 64, 6, CU_AD_FORMAT_UNSIGNED_INT16, 1, 0x04}, 2, 6 * 2 * (64 * 64 + 32 * 32)},
        {{64, 64, 64, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0}, 2, 64 * 64 * 64 + 32 * 32 * 32},
        {{4, 2, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0}, 3, 3 * 512},
        {{65, 64, 0, CU_AD_FORMAT_BC1_UNORM, 4, 0}, 1, 17 * 16 * 8},
        {{64, 64, 0, CU_AD_FORMAT_BC7_UNORM, 4, 0}, 1, 16 * 16 * 16},
        {{64, 64, 0, CU_AD_FORMAT_NV12, 3, 0}, 1, 64 * 96},
        {{64, 64, 0, CU_AD_FORMAT_P010, 3, 0}, 1, 2 * 64 * 96},
        {{64, 64, 0, CU_AD_FORMAT_UNORM_INT8X4, 4, 0}, 1, 64 * 64 * 4},
        {{64, 64, 64, CU_AD_FORMAT_FLOAT, 4, 0x40}, 1, 0},
        {{64, 64, 64, CU_AD_FORMAT_FLOAT, 4, 0x80}, 1, 0},
        {{SIZE_MAX, SIZE_MAX, SIZE_MAX, CU_AD_FORMAT_FLOAT, 4, 0}, 200, UINT64_MAX},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(gs_array_bytes(&rows[i].desc, rows[i].levels), rows[i].bytes);
}

static void arrays_are_charged(void **state)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = {8192, 8192, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0};
    CUarray array, more;

    (void)state;
    assert_int_equal(gs_nv_array_3d_create(fake_array_create, &array, &desc), CUDA_SUCCESS);
    assert_int_equal(fake.device[0].held, 64 * MIB);
    fake_assert_books_match(0);
    assert_int_equal(gs_nv_array_3d_create(fake_array_create, &more, &desc),
                     CUDA_ERROR_OUT_OF_MEMORY);
    fake.fail_at = fake.calls + 1;
    assert_int_equal(gs_nv_array_destroy(fake_array_destroy, array), CUDA_ERROR_LAUNCH_FAILED);
    fake_assert_books_match(0);
    assert_int_equal(gs_nv_array_destroy(fake_array_destroy, array), CUDA_SUCCESS);
    assert_int_equal(fake.device[0].held, 0);
    assert_int_equal(gs_nv_array_destroy(fake_array_destroy, array), CUDA_ERROR_INVALID_VALUE);
    fake.fail_at = fake.calls + 1;
    assert_int_equal(gs_nv_array_3d_create(fake_array_create, &array, &desc),
                     CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(fake.device[0].held, 0);
    assert_int_equal(gs_nv_array_3d_create(fake_array_create, NULL, &desc),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(gs_nv_array_3d_create(fake_array_create, &array, NULL),
                     CUDA_ERROR_INVALID_VALUE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cubin),
        cmocka_unit_test(ptx_variables),
        cmocka_unit_test(hostile_images),
        cmocka_unit_test(a_fat_binary),
        cmocka_unit_test_setup(a_module_is_refused_before_it_is_loaded, fake_setup),
        cmocka_unit_test_setup(a_module_of_unknown_size_is_measured, fake_setup),
        cmocka_unit_test_setup(a_failing_load_leaves_nothing, fake_setup),
        cmocka_unit_test(array_sizes),
        cmocka_unit_test_setup(arrays_are_charged, fake_setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
