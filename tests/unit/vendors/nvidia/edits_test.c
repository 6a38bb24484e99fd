#include "vendors/nvidia/node/edits.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "contract/quota.h"
#include "node/edits.h"
#include "node/grants.h"
#include "node/inventory.h"
#include "node/kit.h"

#define CONFIG "nvidia:\n  deviceMemoryScaling: 2\n  libCudaLogLevel: \"3\"\n"

struct fixture {
    struct gs_arena arena;
    struct gs_inventory_card card[2];
    struct gs_inventory inv;
    struct gs_kit_place place;
    const struct gs_kit_conf *conf;
    struct gs_grants_container container;
    struct gs_grant grant;
    struct gs_kit_slot slot;
    struct gs_edits edits;
    struct gs_quota quota;
};

static const struct gs_kit_vendor *kit = &gs_nvidia_kit_vendor;

static void begin(struct fixture *f, const char *config, const char *grant)
{
    memset(f, 0, sizeof(*f));
    (void)snprintf(f->card[0].uuid, sizeof(f->card[0].uuid), "GPU-aaa");
    (void)snprintf(f->card[1].uuid, sizeof(f->card[1].uuid), "GPU-bbb");
    f->card[1].index = 1;
    f->inv = (struct gs_inventory){.card = f->card, .n = 2};
    f->place = (struct gs_kit_place){.hook_path = "/usr/local",
                                     .library = "/usr/local/vgpu/libvgpu.so",
                                     .preload = "/usr/local/vgpu/ld.so.preload",
                                     .inject = GS_KIT_INJECT_FILE,
                                     .list = GS_KIT_LIST_ENV,
                                     .dev_root = "",
                                     .driver_root = "",
                                     .driver_root_here = "",
                                     .cdi_prefix = "cdi.k8s.io/",
                                     .imex_channels = ""};
    assert_int_equal(kit->configure(&(struct gs_kit_conf_from){.device_config = gs_str_of(config)},
                                    &f->arena, &f->conf, NULL),
                     0);
    assert_int_equal(gs_grant_read(gs_str_of(grant), &f->arena, &f->grant, NULL), 0);
    f->slot = (struct gs_kit_slot){.inv = &f->inv,
                                   .grant = &f->grant.slot[0],
                                   .container = &f->container,
                                   .ledger = "/h/containers/u_c",
                                   .quota = "/h/quota/u_c",
                                   .ledger_name = "c.cache"};
    gs_edits_init(&f->edits, &f->arena);
}

static const char *env(const struct fixture *f, const char *name)
{
    for (size_t i = 0; i < f->edits.n_env; i++)
        if (strcmp(f->edits.env[i].key, name) == 0)
            return f->edits.env[i].value;
    return "none";
}

/* "<host> ro" of what is mounted there. */
static const char *mount(const struct fixture *f, const char *path)
{
    static char text[300];

    (void)snprintf(text, sizeof(text), "none");
    for (size_t i = 0; i < f->edits.n_mount; i++)
        if (strcmp(f->edits.mount[i].container_path, path) == 0)
            (void)snprintf(text, sizeof(text), "%s %s", f->edits.mount[i].host_path,
                           f->edits.mount[i].read_only ? "ro" : "rw");
    return text;
}

/* A20.4, and what 5.3 of HAMi's formats has besides. */
static void names_and_values(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f, CONFIG, "GPU-aaa,NVIDIA,3000,50:GPU-bbb,NVIDIA,2000,20:;");
    assert_int_equal(kit->edit(f.conf, &f.place, &f.slot, &f.edits, NULL), 0);
    assert_string_equal(env(&f, "NVIDIA_VISIBLE_DEVICES"), "GPU-aaa,GPU-bbb");
    assert_string_equal(env(&f, "CUDA_DEVICE_MEMORY_LIMIT_0"), "3000m");
    assert_string_equal(env(&f, "CUDA_DEVICE_MEMORY_LIMIT_1"), "2000m");
    assert_string_equal(env(&f, "CUDA_DEVICE_SM_LIMIT"), "50");
    assert_string_equal(env(&f, "CUDA_OVERSUBSCRIBE"), "true");
    assert_string_equal(env(&f, "LIBCUDA_LOG_LEVEL"), "3");
    assert_string_equal(env(&f, "CUDA_DEVICE_MEMORY_SHARED_CACHE"), "/usr/local/vgpu/c.cache");
    assert_string_equal(env(&f, "GPU_CORE_UTILIZATION_POLICY"), "none");
    assert_string_equal(mount(&f, "/usr/local/vgpu"), "/h/containers/u_c rw");
    assert_string_equal(mount(&f, "/usr/local/vgpu/libvgpu.so"), "/usr/local/vgpu/libvgpu.so ro");
    assert_string_equal(mount(&f, "/etc/ld.so.preload"), "/usr/local/vgpu/ld.so.preload ro");
    assert_string_equal(mount(&f, "/run/gpuslice/quota"), "/h/quota/u_c ro");
    gs_arena_fini(&f.arena);
}

static void strategies(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f, CONFIG, "GPU-bbb,NVIDIA,3000,50:;");
    f.place.list = GS_KIT_LIST_MOUNTS;
    f.place.by_index = true;
    assert_int_equal(kit->edit(f.conf, &f.place, &f.slot, &f.edits, NULL), 0);
    assert_string_equal(env(&f, "NVIDIA_VISIBLE_DEVICES"), "/var/run/nvidia-container-devices");
    assert_string_equal(mount(&f, "/var/run/nvidia-container-devices/1"), "/dev/null ro");
    gs_arena_fini(&f.arena);

    begin(&f, CONFIG, "GPU-bbb,NVIDIA,3000,50:;");
    f.place.list = GS_KIT_LIST_CDI_ANNOTATIONS | GS_KIT_LIST_CDI_CRI;
    assert_int_equal(kit->edit(f.conf, &f.place, &f.slot, &f.edits, NULL), 0);
    assert_string_equal(env(&f, "NVIDIA_VISIBLE_DEVICES"), "void");
    assert_int_equal(f.edits.n_annotation, 1);
    assert_string_equal(f.edits.annotation[0].key, "cdi.k8s.io/nvidia-device-plugin_GPU-bbb");
    assert_string_equal(f.edits.annotation[0].value, "k8s.device-plugin.nvidia.com/gpu=GPU-bbb");
    assert_string_equal(f.edits.cdi[0], "k8s.device-plugin.nvidia.com/gpu=GPU-bbb");
    gs_arena_fini(&f.arena);
}

static void preload_by_variable(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f, CONFIG, "GPU-aaa,NVIDIA,3000,50:;");
    f.place.inject = GS_KIT_INJECT_ENV;
    assert_int_equal(
        gs_pairs_set(&f.container.env, &f.arena, GS_STR("LD_PRELOAD"), GS_STR("/opt/mine.so")), 0);
    assert_int_equal(kit->edit(f.conf, &f.place, &f.slot, &f.edits, NULL), 0);
    assert_string_equal(env(&f, "LD_PRELOAD"), "/usr/local/vgpu/libvgpu.so:/opt/mine.so");
    assert_string_equal(mount(&f, "/etc/ld.so.preload"), "none");
    gs_arena_fini(&f.arena);
}

static void early(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f, CONFIG, "GPU-aaa,NVIDIA,3000,50:;");
    kit->edit_early(f.conf, &f.place, &f.edits);
    assert_string_equal(env(&f, "NVIDIA_VISIBLE_DEVICES"), "void");
    assert_int_equal(f.edits.n_env, 1);
    assert_int_equal(f.edits.n_mount, 2);
    gs_arena_fini(&f.arena);
}

static void unknown_card(void **state)
{
    struct fixture f;

    (void)state;
    begin(&f, CONFIG, "GPU-ccc,NVIDIA,3000,50:;");
    assert_int_equal(kit->edit(f.conf, &f.place, &f.slot, &f.edits, NULL), -ENODEV);
    gs_arena_fini(&f.arena);
}

static void want_limit(const char *config, const char *name, const char *value, const char *grant,
                       const char *lines)
{
    struct fixture f;
    char text[GS_QUOTA_MAX_BYTES];

    begin(&f, config, grant);
    if (name != NULL)
        assert_int_equal(
            gs_pairs_set(&f.container.env, &f.arena, gs_str_of(name), gs_str_of(value)), 0);
    assert_int_equal(kit->limit(f.conf, &f.slot, &f.quota, NULL), 0);
    f.quota.generation = 1;
    assert_true(gs_quota_format(&f.quota, text, sizeof(text)) > 0);
    assert_string_equal(text, lines);
    gs_arena_fini(&f.arena);
}

#define HEAD  "gpuslice-quota 1\ngeneration 1\nfail closed\n"
#define PLAIN "nvidia:\n  resourceCountName: nvidia.com/gpu\n"

static void limits(void **state)
{
    (void)state;
    want_limit(PLAIN, NULL, NULL, "GPU-aaa,NVIDIA,3000,30:;",
               HEAD "device GPU-aaa memory=3145728000 cores=30 policy=fixed\n");
    want_limit(CONFIG, NULL, NULL, "GPU-aaa,NVIDIA,1,0:GPU-bbb,NVIDIA,0,100:;",
               HEAD "oversubscribe on\ndevice GPU-aaa memory=1048576 cores=none policy=fixed\n"
                    "device GPU-bbb memory=none cores=none policy=fixed\n");
    want_limit(PLAIN, "GPU_CORE_UTILIZATION_POLICY", "default", "GPU-aaa,NVIDIA,1,30:;",
               HEAD "device GPU-aaa memory=1048576 cores=30 policy=elastic\n");
    want_limit(PLAIN "  disableCoreLimit: true\n", NULL, NULL, "GPU-aaa,NVIDIA,1,30:;",
               HEAD "device GPU-aaa memory=1048576 cores=30 policy=off\n");
    want_limit(PLAIN, "CUDA_TASK_PRIORITY", "0", "GPU-aaa,NVIDIA,1,30:;",
               HEAD "priority 0\ndevice GPU-aaa memory=1048576 cores=30 policy=fixed\n");
    want_limit(PLAIN, "CUDA_DISABLE_CONTROL", "true", "GPU-aaa,NVIDIA,1,30:;",
               HEAD "device GPU-aaa memory=none cores=none policy=off\n");
    /* two shares of one card */
    want_limit(PLAIN, NULL, NULL, "GPU-aaa,NVIDIA,1,30:GPU-aaa,NVIDIA,2,20:;",
               HEAD "device GPU-aaa memory=3145728 cores=50 policy=fixed\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_values),    cmocka_unit_test(strategies),
        cmocka_unit_test(preload_by_variable), cmocka_unit_test(early),
        cmocka_unit_test(unknown_card),        cmocka_unit_test(limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
