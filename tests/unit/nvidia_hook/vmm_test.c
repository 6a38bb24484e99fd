#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <fcntl.h>
#include <unistd.h>

#include "fake.h"
#include "vendors/nvidia/hook/bodies.h"
#include "vendors/nvidia/hook/vmm.h"

static CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                   .location.type = CU_MEM_LOCATION_TYPE_DEVICE};

static CUmemGenericAllocationHandle create(size_t size)
{
    CUmemGenericAllocationHandle handle = 0;

    assert_int_equal(gs_nv_mem_create(fake_create, &handle, size, &prop, 0), CUDA_SUCCESS);
    return handle;
}

static void charges_at_creation_exactly(void **state)
{
    CUmemGenericAllocationHandle h;

    (void)state;
    fake_reset(8 * MIB);
    create(6 * MIB);
    create(2 * MIB);
    assert_int_equal(fake.held, 8 * MIB);
    assert_int_equal(gs_nv_mem_create(fake_create, &h, 2 * MIB, &prop, 0),
                     CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.forwards, 2);
}

static void host_memory_and_failures_cost_nothing(void **state)
{
    CUmemAllocationProp host = {.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA};
    CUmemGenericAllocationHandle h;

    (void)state;
    fake_reset(8 * MIB);
    assert_int_equal(gs_nv_mem_create(fake_create, &h, 64 * MIB, &host, 0), CUDA_SUCCESS);
    fake.fail = CUDA_ERROR_NOT_PERMITTED;
    assert_int_equal(gs_nv_mem_create(fake_create, &h, 2 * MIB, &prop, 0),
                     CUDA_ERROR_NOT_PERMITTED);
    assert_int_equal(fake.held, 0);
    assert_int_equal(fake.n_full, 0);
    fake.fail = CUDA_ERROR_OUT_OF_MEMORY; /* the card's, within the limit */
    assert_int_equal(gs_nv_mem_create(fake_create, &h, 2 * MIB, &prop, 0),
                     CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.n_full, 1);
    assert_int_equal(fake.full_bytes, 2 * MIB);
    assert_int_equal(fake.full_held, 0);
}

static void lives_as_long_as_handle_or_mapping(void **state)
{
    CUmemGenericAllocationHandle h, again;
    CUdeviceptr va;

    (void)state;
    fake_reset(64 * MIB);
    h = create(4 * MIB);
    va = (CUdeviceptr)h << 40;
    assert_int_equal(gs_nv_mem_map(fake_map, va, 4 * MIB, 0, h, 0), CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_release(fake_release, h), CUDA_SUCCESS);
    assert_int_equal(fake.held, 4 * MIB);
    /* a handle from the mapping, by an address inside it */
    assert_int_equal(gs_nv_mem_retain_handle(fake_retain, &again, (void *)(uintptr_t)(va + MIB)),
                     CUDA_SUCCESS);
    assert_int_equal(again, h);
    assert_int_equal(gs_nv_mem_unmap(fake_unmap, va, 4 * MIB), CUDA_SUCCESS);
    assert_int_equal(fake.held, 4 * MIB);
    assert_int_equal(gs_nv_mem_release(fake_release, again), CUDA_SUCCESS);
    assert_int_equal(fake.held, 0);
    /* once more: a stranger's handle */
    assert_int_equal(gs_nv_mem_release(fake_release, again), CUDA_SUCCESS);
    assert_int_equal(fake.held, 0);
}

static void one_unmap_may_cover_many_mappings(void **state)
{
    CUdeviceptr va = 1ull << 42;

    (void)state;
    fake_reset(UINT64_MAX);
    for (uint64_t i = 0; i < 300; i++) {
        CUmemGenericAllocationHandle h = create(2 * MIB);

        assert_int_equal(gs_nv_mem_map(fake_map, va + i * 2 * MIB, 2 * MIB, 0, h, 0), CUDA_SUCCESS);
        assert_int_equal(gs_nv_mem_release(fake_release, h), CUDA_SUCCESS);
    }
    assert_int_equal(fake.held, 600 * MIB);
    fake.fail = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(gs_nv_mem_unmap(fake_unmap, va, 600 * MIB), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(fake.held, 600 * MIB);
    assert_int_equal(gs_nv_mem_unmap(fake_unmap, va + 2 * MIB, 2 * MIB), CUDA_SUCCESS);
    assert_int_equal(fake.held, 598 * MIB);
    assert_int_equal(gs_nv_mem_unmap(fake_unmap, va, 600 * MIB), CUDA_SUCCESS); /* with a gap */
    assert_int_equal(fake.held, 0);
}

static void failures_keep_the_references(void **state)
{
    CUmemGenericAllocationHandle h;

    (void)state;
    fake_reset(64 * MIB);
    h = create(2 * MIB);
    fake.fail = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(gs_nv_mem_map(fake_map, 1ull << 41, 2 * MIB, 0, h, 0),
                     CUDA_ERROR_INVALID_VALUE);
    fake.fail = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(gs_nv_mem_release(fake_release, h), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(fake.held, 2 * MIB);
    assert_int_equal(gs_nv_mem_release(fake_release, h), CUDA_SUCCESS);
    assert_int_equal(fake.held, 0);
}

static void exported_memory_counts_once(void **state)
{
    CUmemGenericAllocationHandle h, in;
    unsigned char fabric[64];

    (void)state;
    fake_reset(64 * MIB);
    h = create(2 * MIB);
    assert_int_equal(gs_nv_mem_export(fake_export, fabric, h, CU_MEM_HANDLE_TYPE_FABRIC, 0),
                     CUDA_SUCCESS);
    assert_int_equal(fake.held, 0);
    assert_int_equal(fake.shared, 2 * MIB);
    assert_int_equal(gs_nv_mem_import(fake_import, &in, fabric, CU_MEM_HANDLE_TYPE_FABRIC),
                     CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_map(fake_map, 1ull << 43, 2 * MIB, 0, in, 0), CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_release(fake_release, h), CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_release(fake_release, in), CUDA_SUCCESS);
    assert_int_equal(fake.held + fake.shared, 2 * MIB); /* the mapping of the import */
    assert_int_equal(gs_nv_mem_unmap(fake_unmap, 1ull << 43, 2 * MIB), CUDA_SUCCESS);
    assert_int_equal(fake.held + fake.shared, 0);
}

/* A real driver's descriptors are all of one device node; /dev/null stands for it. */
static void imports_without_identity_are_matched_by_size(void **state)
{
    CUmemGenericAllocationHandle h, in;
    int fd = open("/dev/null", O_RDONLY);
    unsigned char out[64];

    (void)state;
    fake_reset(64 * MIB);
    h = create(2 * MIB);
    fake.export_fd = fd;
    assert_int_equal(
        gs_nv_mem_export(fake_export, out, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
        CUDA_SUCCESS);
    assert_int_equal(fake.shared, 2 * MIB);
    assert_int_equal(gs_nv_mem_import(fake_import, &in, (void *)(uintptr_t)fd,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                     CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_map(fake_map, 1ull << 43, 2 * MIB, 0, in, 0), CUDA_SUCCESS);
    close(fd);
    assert_int_equal(gs_nv_mem_release(fake_release, h), CUDA_SUCCESS);
    assert_int_equal(fake.held + fake.shared, 2 * MIB); /* the importer's now */
    assert_int_equal(gs_nv_mem_release(fake_release, in), CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_unmap(fake_unmap, 1ull << 43, 2 * MIB), CUDA_SUCCESS);
    assert_int_equal(fake.held + fake.shared, 0);
}

static uint64_t used(void)
{
    gs_vmm_look_at_exports();
    return fake.held + fake.shared;
}

static CUmemGenericAllocationHandle export_as(int fd)
{
    CUmemGenericAllocationHandle h = create(2 * MIB);
    unsigned char out[64];

    fake.export_fd = fd;
    assert_int_equal(
        gs_nv_mem_export(fake_export, out, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
        CUDA_SUCCESS);
    return h;
}

/* On a device node, as a real driver's, and on files that are told apart. */
static void an_open_descriptor_holds_memory(void **state)
{
    static const char *const files[] = {"/dev/null", "/proc/self/exe"};

    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        int fd = open(files[i], O_RDONLY);
        CUmemGenericAllocationHandle h;

        fake_reset(64 * MIB);
        h = export_as(fd);
        assert_int_equal(gs_nv_mem_release(fake_release, h), CUDA_SUCCESS);
        assert_int_equal(used(), 2 * MIB);
        close(fd);
        assert_int_equal(used(), 0);
        /* closed before the release: nothing lingers */
        fd = open(files[i], O_RDONLY);
        h = export_as(fd);
        close(fd);
        assert_int_equal(gs_nv_mem_release(fake_release, h), CUDA_SUCCESS);
        assert_int_equal(fake.held + fake.shared, 0);
        assert_false(gs_vmm_any_export());
    }
}

static void a_descriptors_number_may_return(void **state)
{
    int fd = open("/dev/null", O_RDONLY);
    CUmemGenericAllocationHandle h;

    (void)state;
    fake_reset(64 * MIB);
    h = export_as(fd);
    assert_int_equal(gs_nv_mem_release(fake_release, h), CUDA_SUCCESS);
    assert_int_equal(used(), 2 * MIB);
    close(fd);
    assert_int_equal(open("/dev/null", O_RDONLY), fd); /* the same node, another file */
    assert_int_equal(used(), 0);
    /* as the number of another export, unseen */
    h = export_as(fd);
    assert_int_equal(gs_nv_mem_release(fake_release, h), CUDA_SUCCESS);
    close(fd);
    assert_int_equal(open("/dev/null", O_RDONLY), fd);
    h = export_as(fd);
    assert_int_equal(fake.held + fake.shared, 2 * MIB);
    close(fd);
    assert_int_equal(gs_nv_mem_release(fake_release, h), CUDA_SUCCESS);
    assert_int_equal(fake.held + fake.shared, 0);
}

static void tiles_hold_memory(void **state)
{
    CUarrayMapInfo info = {.resourceType = CU_RESOURCE_TYPE_ARRAY,
                           .resource.array = (CUarray)(uintptr_t)0x77,
                           .memOperationType = CU_MEM_OPERATION_TYPE_MAP};
    CUmemGenericAllocationHandle h;

    (void)state;
    fake_reset(64 * MIB);
    h = create(2 * MIB);
    info.memHandle.memHandle = h;
    assert_int_equal(gs_nv_mem_map_array(fake_map_array, &info, 1, NULL), CUDA_SUCCESS);
    info.subresource.sparseLevel.offsetX = 64;
    assert_int_equal(gs_nv_mem_map_array(fake_map_array, &info, 1, NULL), CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_release(fake_release, h), CUDA_SUCCESS);
    info.memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
    assert_int_equal(gs_nv_mem_map_array(fake_map_array, &info, 1, NULL), CUDA_SUCCESS);
    assert_int_equal(fake.held, 2 * MIB);
    gs_vmm_array_gone(0x77);
    assert_int_equal(fake.held, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(charges_at_creation_exactly),
        cmocka_unit_test(host_memory_and_failures_cost_nothing),
        cmocka_unit_test(lives_as_long_as_handle_or_mapping),
        cmocka_unit_test(one_unmap_may_cover_many_mappings),
        cmocka_unit_test(failures_keep_the_references),
        cmocka_unit_test(exported_memory_counts_once),
        cmocka_unit_test(imports_without_identity_are_matched_by_size),
        cmocka_unit_test(an_open_descriptor_holds_memory),
        cmocka_unit_test(a_descriptors_number_may_return),
        cmocka_unit_test(tiles_hold_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
