/* Containers of a node: folders, pods and the driver's word joined. Time is a parameter. */

#include "monitor/tenants.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_ledger.h"
#include "fake_pod.h"

#define MIB    ((uint64_t)1 << 20)
#define RESYNC 300000
#define ID     "0123456789abcdef0123456789abcdef"

static struct {
    int dir;
    char folder[128], proc[128];
    struct gs_pods pods;
    struct gs_tenants *tenants;
    struct gs_tenants_card card[2];
    struct gs_tenants_process process[8];
    struct gs_tenants_driver driver;
    struct gs_tenants_now now;
} f;

static void begin(bool has_cluster)
{
    memset(&f, 0, sizeof(f));
    f.dir = fake_folder();
    (void)snprintf(f.folder, sizeof(f.folder), "%s/containers", fake_folder_path());
    (void)snprintf(f.proc, sizeof(f.proc), "%s/proc", fake_folder_path());
    assert_int_equal(mkdirat(f.dir, "containers", 0755), 0);
    assert_int_equal(mkdirat(f.dir, "proc", 0755), 0);
    gs_pods_init(&f.pods, fake_keys, 1);
    assert_int_equal(gs_tenants_new(&(struct gs_tenants_opt){.folder = f.folder,
                                                             .proc = f.proc,
                                                             .pods = has_cluster ? &f.pods : NULL,
                                                             .resync_ms = RESYNC},
                                    &f.tenants),
                     0);
    for (uint32_t i = 0; i < 2; i++) {
        f.card[i] = (struct gs_tenants_card){.index = i, .total_bytes = 8192 * MIB};
        (void)snprintf(f.card[i].uuid, sizeof(f.card[i].uuid), "GPU-%u", i);
    }
    f.driver = (struct gs_tenants_driver){f.card, 2, f.process, 0};
    f.now =
        (struct gs_tenants_now){.ms = 1000, .mono_ns = 1, .unix_s = 1790000000, .may_remove = true};
}

static void end(void)
{
    gs_tenants_free(f.tenants);
    gs_pods_fini(&f.pods);
    fake_folder_remove(f.dir);
}

static void look(void)
{
    struct gs_err err = {0};

    assert_int_equal(gs_tenants_begin(f.tenants, &err), 0);
    while (gs_tenants_step(f.tenants, &f.now))
        ;
    gs_tenants_end(f.tenants, &f.driver);
}

/** A container's folder; returns a descriptor of it. */
static int folder(const char *name)
{
    char path[256];
    int fd;

    (void)snprintf(path, sizeof(path), "containers/%s", name);
    assert_int_equal(mkdirat(f.dir, path, 0755), 0);
    fd = openat(f.dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static bool is_there(const char *name)
{
    char path[256];

    (void)snprintf(path, sizeof(path), "containers/%s", name);
    return faccessat(f.dir, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void pod(const char *uid, const char *grant, const char *phase)
{
    char json[1024];

    (void)snprintf(json, sizeof(json),
                   "{'metadata':{'namespace':'ns','name':'pod-%s','uid':'%s','annotations':{"
                   "'hami.io/vgpu-devices-allocated':'%s'}},"
                   "'spec':{'containers':[{'name':'main'}]},"
                   "'status':{'phase':'%s','containerStatuses':[{'name':'main',"
                   "'containerID':'containerd://" ID "','state':{'running':{}}}]}}",
                   uid, uid, grant, phase);
    assert_int_equal(fake_pod(&f.pods, json), 0);
}

/** A process on card 0 that the driver shows, in a container of the pod with that UID. */
static void process(uint32_t pid, const char *uid, uint64_t bytes)
{
    char path[64], text[256];
    int fd;

    f.process[f.driver.n_processes++] =
        (struct gs_tenants_process){.card = 0, .pid = pid, .used_bytes = bytes, .util_pct = 7};
    (void)snprintf(path, sizeof(path), "proc/%u", pid);
    assert_int_equal(mkdirat(f.dir, path, 0755), 0);
    (void)snprintf(path, sizeof(path), "proc/%u/cgroup", pid);
    (void)snprintf(text, sizeof(text), "0::/kubepods/pod%s/" ID "\n", uid);
    fd = openat(f.dir, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    (void)close(fd);
}

static const struct gs_tenant *only(void)
{
    assert_int_equal(gs_tenants_count(f.tenants), 1);
    return gs_tenants_at(f.tenants, 0);
}

static bool is_told(const struct gs_tenant *tenant)
{
    struct gs_tenants_who who;

    return gs_tenants_who(f.tenants, tenant, &who);
}

static void a_slice(void **state)
{
    struct gs_tenants_who who;
    struct fake_ledger ledger;
    const struct gs_tenant *t;
    int dir;

    (void)state;
    begin(true);
    dir = folder("aa-1_main");
    ledger = fake_ledger(dir, "x.cache", 1);
    ledger.device[0].limit_bytes = 2000 * MIB;
    fake_process(&ledger, 0, 1);
    ledger.device[0].held[0] = 300 * MIB;
    ledger.device[0].refusals = 4;
    ledger.device[0].meter.waits = 2;
    ledger.device[0].meter.waited_ns = 1500000000;
    pod("aa-1", "GPU-0,NVIDIA,2000,30:;", "Running");
    process(4000001, "aa-1", 310 * MIB);
    look();
    t = only();
    assert_true(gs_tenants_who(f.tenants, t, &who));
    assert_true(gs_str_eq_c(who.ns, "ns") && gs_str_eq_c(who.pod, "pod-aa-1") &&
                gs_str_eq_c(who.container, "main"));
    assert_int_equal(t->n_devices, 1);
    assert_string_equal(t->device[0].uuid, "GPU-0");
    assert_int_equal(t->device[0].held, GS_HELD_HOOK);
    assert_int_equal(t->device[0].limit_bytes, 2000 * MIB);
    assert_int_equal(t->device[0].used_bytes, 300 * MIB);
    assert_int_equal(t->device[0].driver_bytes, 310 * MIB);
    assert_int_equal(t->device[0].util_pct, 7);
    assert_int_equal(t->device[0].core_pct, 30);
    assert_int_equal(t->device[0].excess_bytes, 0);
    assert_int_equal(t->device[0].read->refusals, 4);
    assert_int_equal(t->device[0].read->waited_ns, 1500000000);
    assert_int_equal(t->reading.n_pids, 1);
    assert_int_equal(t->n_unheld, 1); /* the ledger's process is another */
    (void)close(dir);
    fake_ledger_drop(&ledger);
    end();
}

static void who_is_told_of(void **state)
{
    int dir;

    (void)state;
    begin(true);
    dir = folder("aa-1_main");
    (void)close(dir);
    (void)close(folder("no-name-of-ours"));
    (void)close(folder("aa-1_other"));
    look();
    assert_int_equal(gs_tenants_count(f.tenants), 2);
    assert_false(is_told(gs_tenants_at(f.tenants, 0))); /* no such pod here */
    pod("aa-1", "GPU-0,NVIDIA,2000,30:;", "Running");
    assert_true(is_told(gs_tenants_at(f.tenants, 0)));
    assert_false(is_told(gs_tenants_at(f.tenants, 1))); /* no such container in it */
    look();
    /* nobody has used the card: it is prepared for the hook */
    assert_int_equal(gs_tenants_at(f.tenants, 0)->device[0].held, GS_HELD_HOOK);
    assert_int_equal(gs_tenants_at(f.tenants, 0)->device[0].used_bytes, 0);
    assert_int_equal(gs_tenants_at(f.tenants, 0)->device[0].limit_bytes, 2000 * MIB);
    pod("aa-1", "GPU-0,NVIDIA,2000,30:;", "Succeeded");
    assert_false(is_told(gs_tenants_at(f.tenants, 0)));
    gs_pods_gone(&f.pods, GS_STR("aa-1"));
    assert_false(is_told(gs_tenants_at(f.tenants, 0)));
    end();
}

static void a_whole_card(void **state)
{
    const struct gs_tenant *t;

    (void)state;
    begin(true);
    pod("bb-2", "GPU-0,NVIDIA,8192,100:;", "Running");
    process(4000002, "bb-2", 5000 * MIB);
    look();
    t = only();
    assert_true(is_told(t));
    assert_int_equal(t->device[0].held, GS_HELD_EXCLUSIVE);
    assert_int_equal(t->device[0].limit_bytes, 8192 * MIB);
    assert_int_equal(t->device[0].used_bytes, 5000 * MIB);
    pod("bb-2", "GPU-0,NVIDIA,4096,50:;", "Running"); /* half of it, and nothing holds it */
    look();
    assert_int_equal(only()->device[0].held, GS_HELD_NONE);
    end();
}

static void watchdog(void **state)
{
    const struct gs_tenant *t;

    (void)state;
    begin(true);
    pod("cc-3", "GPU-0,NVIDIA,1000,30:;", "Running");
    process(4000003, "cc-3", 1064 * MIB); /* the slack of one process */
    look();
    look();
    assert_false(only()->device[0].is_breach);
    f.process[0].used_bytes += 1;
    look();
    t = only();
    assert_false(t->device[0].is_breach); /* one look is no proof */
    look();
    t = only();
    assert_true(t->device[0].is_breach);
    assert_int_equal(t->device[0].excess_bytes, 64 * MIB + 1);
    assert_int_equal(t->n_breaches, 1);
    look();
    assert_int_equal(only()->n_breaches, 1); /* the same one */
    f.process[0].used_bytes = GS_TENANTS_UNKNOWN;
    look();
    f.process[0].used_bytes = 900 * MIB;
    look();
    assert_false(only()->device[0].is_breach);
    assert_int_equal(only()->device[0].excess_bytes, 0);
    f.process[0].used_bytes = 2000 * MIB;
    look();
    look();
    assert_int_equal(only()->n_breaches, 2);
    end();
}

/* Its own file says that it may have more: the grant counts. */
static void limit_of_its_own(void **state)
{
    struct fake_ledger ledger;
    int dir;

    (void)state;
    begin(true);
    dir = folder("cc-4_main");
    ledger = fake_ledger(dir, "x.cache", 1);
    ledger.device[0].limit_bytes = UINT64_MAX;
    pod("cc-4", "GPU-0,NVIDIA,1000,30:;", "Running");
    process(4000004, "cc-4", 3000 * MIB);
    look();
    look();
    assert_true(only()->device[0].is_breach);
    (void)close(dir);
    fake_ledger_drop(&ledger);
    end();
}

static void damage(void **state)
{
    struct fake_ledger ledger;
    const struct gs_tenant *t;
    int dir, fd;

    (void)state;
    begin(true);
    pod("dd-5", "GPU-0,NVIDIA,1000,30:;", "Running");
    dir = folder("dd-5_main");
    ledger = fake_ledger(dir, "x.cache", 1);
    look();
    assert_int_equal(only()->reading.kind, GS_READING_LEDGER);
    ledger.ledger->head.n_devices = 60; /* more than the file has */
    look();
    t = only();
    assert_int_equal(t->reading.kind, GS_READING_DAMAGED);
    assert_int_equal(t->n_devices, 1); /* by the grant */
    assert_int_equal(t->device[0].held, GS_HELD_NONE);
    assert_null(t->device[0].read);
    ledger.ledger->head.n_devices = 1;
    look();
    assert_int_equal(only()->reading.kind, GS_READING_LEDGER);
    fd = openat(dir, "y.cache", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    (void)close(fd);
    look();
    assert_int_equal(only()->reading.kind, GS_READING_DAMAGED);
    assert_int_equal(unlinkat(dir, "y.cache", 0), 0);
    fake_ledger_drop(&ledger);
    /* cut down to a region of HAMi's, with its magic words: it was ours */
    fd = openat(dir, "x.cache", O_RDWR | O_CLOEXEC);
    assert_int_equal(ftruncate(fd, 2008953), 0);
    assert_int_equal(pwrite(fd, &(int32_t[]){19920718, 1}, 8, 0), 8);
    (void)close(fd);
    look();
    assert_int_equal(only()->reading.kind, GS_READING_DAMAGED);
    assert_int_equal(unlinkat(dir, "x.cache", 0), 0);
    assert_int_equal(symlinkat("/etc/passwd", dir, "x.cache"), 0);
    look();
    assert_int_equal(only()->reading.kind, GS_READING_DAMAGED);
    (void)close(dir);
    end();
}

/* Names of cards that this machine has not are nobody's series. */
static void names_of_its_own(void **state)
{
    struct fake_ledger ledger;
    int dir;

    (void)state;
    begin(false);
    dir = folder("ee-6_main");
    ledger = fake_ledger(dir, "x.cache", 2); /* GPU-0 and GPU-1 */
    (void)strcpy(ledger.device[1].uuid, "GPU-of-my-own");
    look();
    assert_int_equal(only()->n_devices, 1);
    assert_true(is_told(only()));
    (void)close(dir);
    fake_ledger_drop(&ledger);
    end();
}

static void old(int dir)
{
    const struct timespec times[2] = {{f.now.unix_s - 301, 0}, {f.now.unix_s - 301, 0}};

    assert_int_equal(futimens(dir, times), 0);
}

static void folders_of_gone_pods(void **state)
{
    struct fake_ledger alive, dead;
    int a, b, c, d, e;

    (void)state;
    begin(true);
    pod("ff-0", "GPU-0,NVIDIA,1000,30:;", "Running");
    a = folder("ff-0_main"); /* its pod is there */
    b = folder("ff-1_main"); /* not old enough */
    c = folder("ff-2_main"); /* a process by its ledger */
    d = folder("ff-3_main"); /* a process by its cgroup */
    e = folder("ff-4_main"); /* nobody */
    alive = fake_ledger(c, "x.cache", 1);
    fake_process(&alive, 0, 1);
    dead = fake_ledger(e, "x.cache", 1);
    fake_process(&dead, 0, 0);
    assert_int_equal(mkdirat(e, "deep", 0700), 0);
    assert_int_equal(mkdirat(e, "deep/er", 0700), 0);
    process(4000005, "ff-3", 1);
    old(a), old(c), old(d), old(e);
    f.now.may_remove = false;
    look();
    assert_true(is_there("ff-4_main"));
    f.now.may_remove = true;
    for (int i = 0; i < 4; i++)
        look();
    assert_true(is_there("ff-0_main") && is_there("ff-1_main") && is_there("ff-2_main") &&
                is_there("ff-3_main"));
    assert_false(is_there("ff-4_main"));
    assert_int_equal(gs_tenants_count(f.tenants), 4);
    (void)close(a), (void)close(b), (void)close(c), (void)close(d), (void)close(e);
    fake_ledger_drop(&alive);
    fake_ledger_drop(&dead);
    end();
}

static void no_folder_and_no_driver(void **state)
{
    struct gs_err err = {0};

    (void)state;
    begin(true);
    assert_int_equal(unlinkat(f.dir, "containers", AT_REMOVEDIR), 0);
    pod("gg-7", "GPU-0,NVIDIA,1000,30:;", "Running");
    assert_int_equal(gs_tenants_begin(f.tenants, &err), 0);
    while (gs_tenants_step(f.tenants, &f.now))
        ;
    gs_tenants_end(f.tenants, NULL);
    assert_int_equal(only()->device[0].limit_bytes, 1000 * MIB);
    assert_true(only()->device[0].used_bytes == GS_TENANTS_UNKNOWN);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slice),
        cmocka_unit_test(who_is_told_of),
        cmocka_unit_test(a_whole_card),
        cmocka_unit_test(watchdog),
        cmocka_unit_test(limit_of_its_own),
        cmocka_unit_test(damage),
        cmocka_unit_test(names_of_its_own),
        cmocka_unit_test(folders_of_gone_pods),
        cmocka_unit_test(no_folder_and_no_driver),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
