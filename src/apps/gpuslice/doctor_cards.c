/* gpuslice doctor: the driver and its cards. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/gpuslice/doctor.h"
#include "base/clock.h"
#include "base/file.h"
#include "node/publish.h"
#include "vendors/registry_node.h"
#include "vendors/registry_publish.h"

/** Records of the kernel's log that are looked at; it holds some thousands. */
#define LOG_RECORDS 200000
#define LOG_RECORD  8192
#define FIRST_MS    3000

/* --- the driver and what cards there are --- */

struct telling {
    struct gs_doctor *doctor;
    const char *check, *fix;
};

static void tell(void *user, const char *text)
{
    const struct telling *t = user;

    gs_doctor_find(t->doctor, t->check, GS_DOCTOR_WARNING, t->fix, "%s", text);
}

static void describe(struct gs_doctor *doctor, size_t at)
{
    const struct gs_inventory_card *card = &doctor->inv.card[at];

    gs_doctor_find(doctor, "card", GS_DOCTOR_FINE, "",
                   "%u %s, %llu MiB, %s, PCI %s, NUMA node %d%s", card->index, card->name,
                   (unsigned long long)(card->memory >> 20), card->uuid,
                   card->pci[0] != '\0' ? card->pci : "unknown", card->numa,
                   card->is_split ? ", MIG mode" : "");
    for (size_t k = 0; k < card->n_parts; k++)
        gs_doctor_find(doctor, "card", GS_DOCTOR_FINE, "", "%u has MIG device %s, %s", card->index,
                       card->part[k].profile, card->part[k].uuid);
}

/* Pairs whose two sides disagree are told one by one, the others together. */
static void describe_links(struct gs_doctor *doctor)
{
    const struct gs_inventory *inv = &doctor->inv;
    int32_t least = INT32_MAX, most = 0;
    size_t n_pairs = 0, n_linked = 0;

    for (size_t i = 0; inv->link != NULL && i < inv->n; i++)
        for (size_t k = i + 1; k < inv->n; k++) {
            struct gs_link from = inv->link[i * inv->n + k], back = inv->link[k * inv->n + i];
            bool is_odd;
            int32_t score = gs_inventory_score(from, back, &is_odd);

            n_pairs++;
            n_linked += !is_odd && from.n_lanes > 0;
            least = score < least ? score : least;
            most = score > most ? score : most;
            if (is_odd)
                gs_doctor_find(doctor, "links", GS_DOCTOR_WARNING,
                               "look at the bridge or cable: nvidia-smi nvlink --status",
                               "cards %u and %u disagree on the links between them: %u and %u",
                               inv->card[i].index, inv->card[k].index, from.n_lanes, back.n_lanes);
        }
    if (n_pairs > 0)
        gs_doctor_find(doctor, "links", GS_DOCTOR_FINE, "",
                       "%zu of %zu pairs of cards have links of their own; scores of nearness from "
                       "%d to %d",
                       n_linked, n_pairs, least, most);
}

static bool read_inventory(struct gs_doctor *doctor)
{
    struct telling t = {doctor, "card", "see what nvidia-smi says of it; restart the driver"};
    const struct gs_inventory_tell to = {tell, &t};
    char sysfs[GS_DOCTOR_PATH];
    struct gs_err first = {0};

    (void)gs_doctor_path(doctor, "/sys", sysfs);
    for (size_t i = 0; i < gs_registry_node_n; i++) {
        const struct gs_probe_vendor *vendor = gs_registry_node[i];
        struct gs_err err = {0};

        gs_inventory_fini(&doctor->inv);
        if (gs_inventory_read(vendor->inventory, sysfs, &to, &doctor->inv, &err) == 0) {
            doctor->vendor = vendor;
            if (doctor->inv.n > 0)
                break;
        } else if (first.code == 0) {
            first = err;
        }
    }
    if (doctor->vendor == NULL) {
        gs_doctor_find(doctor, "driver", GS_DOCTOR_BROKEN,
                       "install the vendor's driver with its management library, or mount it into "
                       "this container; see the kernel's log where it is installed",
                       "no driver answers: %.300s", first.text);
        return false;
    }
    gs_doctor_find(doctor, "driver", GS_DOCTOR_FINE, "", "%s driver %s answers, programs up to %s",
                   doctor->vendor->name, doctor->inv.driver[0] ? doctor->inv.driver : "(unknown)",
                   doctor->inv.runtime[0] ? doctor->inv.runtime : "(unknown)");
    if (doctor->inv.n == 0)
        gs_doctor_find(doctor, "driver", GS_DOCTOR_BROKEN,
                       "see whether the bus has the card (lspci) and the kernel's log",
                       "the driver has no card that can be asked");
    return doctor->inv.n > 0;
}

/* --- how they are --- */

static void compare(struct gs_doctor *doctor, const struct gs_health *before, double after_s)
{
    char text[GS_HEALTH_TEXT], line[320];

    for (size_t i = 0; i < doctor->inv.n; i++)
        for (int part = -1; part < (int)doctor->inv.card[i].n_parts; part++) {
            const struct gs_inventory_card *card = &doctor->inv.card[i];

            if (gs_health_why(before, i, part) == gs_health_why(&doctor->health, i, part))
                continue;
            (void)snprintf(line, sizeof(line), "card %u%s%s %s", card->index,
                           part >= 0 ? " MIG " : "", part >= 0 ? card->part[part].uuid : "",
                           gs_health_text(&doctor->health, i, part,
                                          doctor->vendor->health->error_word,
                                          doctor->vendor->health->error_text, text));
            gs_doctor_changed(doctor, after_s, line);
        }
}

/* Feed what the watch sees until it is time, and until cards were asked once. */
static void watch(struct gs_doctor *doctor, struct gs_health_watch *w)
{
    const struct gs_health_vendor *vendor = doctor->vendor->health;
    const struct gs_clock *clock = gs_clock_real();
    uint64_t start_ns = gs_clock_mono_ns(clock), now_ns = start_ns;
    uint64_t end_ns = start_ns + (uint64_t)(doctor->watch_s * 1e9);
    struct gs_note note[64 + GS_INVENTORY_CARDS];
    struct gs_health *before = malloc(sizeof(*before));
    bool has_answers = false;
    char text[64];

    if (before == NULL)
        doctor->failed = true;
    (void)snprintf(text, sizeof(text), "watching %zu cards", doctor->inv.n);
    if (doctor->watch_s > 0)
        gs_doctor_changed(doctor, 0, text);
    while (before != NULL &&
           (now_ns < end_ns || (!has_answers && now_ns < start_ns + FIRST_MS * GS_CLOCK_MS))) {
        uint64_t left_ms = now_ns < end_ns ? (end_ns - now_ns) / GS_CLOCK_MS + 1 : 200;
        size_t n = vendor->watch_wait(w, left_ms < 500 ? (unsigned)left_ms : 500, note,
                                      GS_ARRAY_LEN(note));

        now_ns = gs_clock_mono_ns(clock);
        *before = doctor->health;
        for (size_t i = 0; i < n; i++) {
            has_answers |= note[i].kind == GS_NOTE_ANSWER;
            (void)gs_health_take(&doctor->health, &note[i], now_ns);
            if (note[i].kind == GS_NOTE_OTHER_CARDS)
                gs_doctor_changed(doctor, (double)(now_ns - start_ns) / 1e9,
                                  "the driver counts other cards than before");
        }
        (void)gs_health_tick(&doctor->health, now_ns);
        compare(doctor, before, (double)(now_ns - start_ns) / 1e9);
    }
    free(before);
}

static const char *remedy(enum gs_sick why)
{
    switch (why) {
    case GS_SICK_RESET:
        return "end its programs and reset it (nvidia-smi --gpu-reset -i INDEX), or restart the "
               "machine";
    case GS_SICK_LOST:
        return "look at its power and its slot; restart the machine";
    case GS_SICK_DRIVER:
        return "load the driver again (modprobe), or restart the machine";
    case GS_SICK_ERROR:
        return "nothing, if it goes on by itself; else see the kernel's log";
    default:
        return "see the kernel's log; restart the driver";
    }
}

static void judge(struct gs_doctor *doctor, size_t at)
{
    const struct gs_inventory_card *card = &doctor->inv.card[at];
    const struct gs_health_vendor *vendor = doctor->vendor->health;
    char text[GS_HEALTH_TEXT];

    for (int part = -1; part < (int)card->n_parts; part++) {
        enum gs_sick why = gs_health_why(&doctor->health, at, part);

        if (part >= 0 && why == gs_health_why(&doctor->health, at, -1))
            continue; /* said of the card */
        gs_doctor_find(doctor, "health",
                       why == GS_SICK_NOT     ? GS_DOCTOR_FINE
                       : why == GS_SICK_ERROR ? GS_DOCTOR_WARNING
                                              : GS_DOCTOR_BROKEN,
                       why == GS_SICK_NOT ? "" : remedy(why), "card %u%s%s %s", card->index,
                       part >= 0 ? " MIG " : "", part >= 0 ? card->part[part].uuid : "",
                       why == GS_SICK_NOT
                           ? "is well"
                           : gs_health_text(&doctor->health, at, part, vendor->error_word,
                                            vendor->error_text, text));
    }
}

static void check_health(struct gs_doctor *doctor)
{
    struct telling t = {doctor, "health", "nothing: old or virtual cards do not report any"};
    const struct gs_inventory_tell to = {tell, &t};
    const struct gs_health_conf conf = {.ignore = getenv("DP_DISABLE_HEALTHCHECKS"),
                                        .heed = getenv("DP_ENABLE_HEALTHCHECKS"),
                                        .tell = &to};
    const struct gs_health_vendor *vendor = doctor->vendor->health;
    struct gs_health_watch *w = NULL;
    struct gs_err err = {0};

    gs_health_init(&doctor->health, doctor->inv.n, gs_clock_mono_ns(gs_clock_real()));
    if (vendor->watch_new(&doctor->inv, &conf, &w, &err) != 0) {
        gs_doctor_find(doctor, "health", GS_DOCTOR_BROKEN, "restart the driver",
                       "cards cannot be watched: %s", err.text);
        return;
    }
    watch(doctor, w);
    (void)vendor->watch_free(w);
    for (size_t i = 0; i < doctor->inv.n; i++)
        judge(doctor, i);
}

/* --- errors in the kernel's log --- */

struct seen {
    uint64_t code[8]; /* the newest kinds */
    unsigned n[8];
    size_t n_codes;
};

static void count(struct seen *seen, uint64_t code)
{
    size_t i = 0;

    while (i < seen->n_codes && seen->code[i] != code)
        i++;
    if (i == GS_ARRAY_LEN(seen->code))
        return; /* so many kinds that one more changes nothing */
    if (i == seen->n_codes)
        seen->code[seen->n_codes++] = code;
    seen->n[i]++;
}

static void read_line(struct gs_doctor *doctor, struct seen *seen, const char *line)
{
    char pci[32];
    uint64_t code;

    if (!doctor->vendor->health->read_log_line(line, pci, &code))
        return;
    for (size_t i = 0; i < doctor->inv.n; i++)
        if (strcmp(doctor->inv.card[i].pci, pci) == 0)
            count(&seen[i], code);
}

/* The device gives a record a read. */
static void read_log(struct gs_doctor *doctor, int fd, struct seen *seen)
{
    char record[LOG_RECORD];

    for (int i = 0; i < LOG_RECORDS; i++) {
        ssize_t n = read(fd, record, sizeof(record) - 1);

        if (n < 0 && errno == EPIPE)
            continue; /* overwritten while we read: the next one is there */
        if (n <= 0)
            return;
        record[n] = '\0';
        read_line(doctor, seen, record);
    }
}

/* A file that stands for it has a line a record. */
static void read_log_file(struct gs_doctor *doctor, struct seen *seen)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    char *rest, *line;

    if (!gs_doctor_read(doctor, "/dev/kmsg", &text) || text.n == 0)
        return;
    rest = text.p;
    while ((line = strsep(&rest, "\n")) != NULL)
        read_line(doctor, seen, line);
}

static void judge_log(struct gs_doctor *doctor, size_t at, const struct seen *seen)
{
    const struct gs_health_vendor *vendor = doctor->vendor->health;

    for (size_t i = 0; i < seen->n_codes; i++) {
        const char *text = vendor->error_text(seen->code[i]);
        enum gs_harm harm = vendor->usual_harm(seen->code[i]);

        gs_doctor_find(
            doctor, "kernel-log", harm == GS_HARM_NONE ? GS_DOCTOR_NOTE : GS_DOCTOR_WARNING,
            harm == GS_HARM_NONE     ? "look at the program that was running, not at the card"
            : harm == GS_HARM_PASSES ? "watch it; see the vendor's list of errors"
                                     : remedy(GS_SICK_RESET),
            "card %u reported %s %llu%s%s, %u times since the machine started",
            doctor->inv.card[at].index, vendor->error_word, (unsigned long long)seen->code[i],
            text != NULL ? ", " : "", text != NULL ? text : "", seen->n[i]);
    }
}

static void check_log(struct gs_doctor *doctor)
{
    struct seen seen[GS_INVENTORY_CARDS] = {0};
    char path[GS_DOCTOR_PATH];
    GS_CLEANUP(gs_file_close)
    int fd = open(gs_doctor_path(doctor, "/dev/kmsg", path), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    size_t kinds = 0;
    struct stat st;

    if (fd < 0) {
        gs_doctor_find(doctor, "kernel-log", GS_DOCTOR_NOTE,
                       "run this as root to see what cards reported",
                       "the kernel's log cannot be read: %s", strerror(errno));
        return;
    }
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        read_log_file(doctor, seen);
    else
        read_log(doctor, fd, seen);
    for (size_t i = 0; i < doctor->inv.n; i++) {
        judge_log(doctor, i, &seen[i]);
        kinds += seen[i].n_codes;
    }
    if (kinds == 0)
        gs_doctor_find(doctor, "kernel-log", GS_DOCTOR_FINE, "",
                       "no errors of cards in the kernel's log");
}

/* --- device nodes --- */

struct nodes {
    char missing[GS_INVENTORY_CARDS][GS_DEVNODE_PATH]; /* told once each, though cards share some */
    size_t n_missing, n_there;
};

static void check_node(struct gs_doctor *doctor, size_t card, const struct gs_devnode *node,
                       struct nodes *all)
{
    all->n_there += node->is_there;
    if (node->is_there || !node->is_needed || all->n_missing == GS_ARRAY_LEN(all->missing))
        return;
    for (size_t i = 0; i < all->n_missing; i++)
        if (strcmp(all->missing[i], node->path) == 0)
            return;
    memcpy(all->missing[all->n_missing++], node->path, sizeof(node->path));
    gs_doctor_find(doctor, "device-nodes", GS_DOCTOR_BROKEN,
                   "make it: nvidia-modprobe -c 0 -u (as root), or restart the driver",
                   "%s is missing: no program reaches card %u", node->path,
                   doctor->inv.card[card].index);
}

static void check_nodes(struct gs_doctor *doctor)
{
    const struct gs_devnode_roots roots = {doctor->root, doctor->root};
    struct gs_devnode node[GS_DEVNODES];
    size_t before = doctor->n_findings;
    struct nodes all = {.n_missing = 0};

    for (size_t i = 0; i < doctor->inv.n; i++)
        for (int part = -1; part < (int)doctor->inv.card[i].n_parts; part++) {
            size_t n = doctor->vendor->nodes(&roots, &doctor->inv.card[i], part, node);

            for (size_t k = 0; k < n; k++)
                check_node(doctor, i, &node[k], &all);
        }
    if (all.n_missing > 0 && all.n_there > 0)
        return;
    doctor->n_findings = before;
    if (all.n_there > 0)
        gs_doctor_find(doctor, "device-nodes", GS_DOCTOR_FINE, "",
                       "every card has its device nodes");
    else /* a real driver could not have answered */
        gs_doctor_find(doctor, "device-nodes", GS_DOCTOR_NOTE, "",
                       "the driver answers without any device node: simulated cards, or WSL");
}

/* --- what the device plugin makes of it --- */

static void describe_offers(struct gs_doctor *doctor, const struct gs_published *p)
{
    for (size_t i = 0; i < p->n_offers; i++) {
        int64_t n = 0;
        size_t first = 0;

        while (strcmp(p->offer[first].resource, p->offer[i].resource) != 0)
            first++;
        if (first != i)
            continue;
        for (size_t k = i; k < p->n_offers; k++)
            if (strcmp(p->offer[k].resource, p->offer[i].resource) == 0)
                n += p->offer[k].n_shares;
        gs_doctor_find(doctor, "config", GS_DOCTOR_FINE, "",
                       "the kubelet would be offered %lld of %s", (long long)n,
                       p->offer[i].resource);
    }
}

static void check_config(struct gs_doctor *doctor)
{
    struct telling t = {doctor, "config", "mend the file named, or what it says of this card"};
    const struct gs_inventory_tell to = {tell, &t};
    struct gs_publish_from from = {.inv = &doctor->inv, .health = &doctor->health, .tell = &to};

    from.device_config = doctor->device_config;
    from.node_config = doctor->node_config;
    from.node = gs_str_of(doctor->node);
    for (size_t i = 0; i < gs_registry_publish_n; i++) {
        GS_CLEANUP(gs_published_fini) struct gs_published p = {0};
        struct gs_err err = {0};

        if (gs_registry_publish[i]->probe != doctor->vendor)
            continue;
        if (gs_registry_publish[i]->publish(&from, &p, &err) < 0) {
            gs_doctor_find(doctor, "config", GS_DOCTOR_BROKEN, "mend the file or the cards' mode",
                           "a device plugin would offer nothing: %s", err.text);
            continue;
        }
        gs_buf_put(&doctor->registered, gs_buf_str(&p.registered));
        gs_buf_put(&doctor->scores, gs_buf_str(&p.scores));
        describe_offers(doctor, &p);
    }
}

void gs_doctor_cards(struct gs_doctor *doctor)
{
    if (!read_inventory(doctor))
        return;
    for (size_t i = 0; i < doctor->inv.n; i++)
        describe(doctor, i);
    describe_links(doctor);
    check_health(doctor);
    check_log(doctor);
    check_nodes(doctor);
    check_config(doctor);
}
