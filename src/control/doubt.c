#include "control/doubt.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"

#define NAMES 3 /* in a line of the log */

struct doubted {
    char name[330]; /**< namespace/name, 63 and 253 bytes at most */
};

static void tell(void *arg)
{
    struct gs_doubt *doubt = arg;
    size_t n = doubt->pod.n, pos = 0, at = 0;
    char names[NAMES * sizeof(((struct doubted *)0)->name) + 16] = "";
    const struct doubted *pod;

    if (n == doubt->told)
        return;
    doubt->told = n;
    if (n == 0) {
        GS_LOG_INFO("the grants of all bound pods are believed again");
        return;
    }
    for (size_t i = 0; i < NAMES && (pod = gs_map_next(&doubt->pod, &pos)) != NULL; i++)
        at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s", i > 0 ? " " : "", pod->name);
    if (n > NAMES)
        (void)snprintf(names + at, sizeof(names) - at, " ...");
    GS_LOG_WARN("grants of bound pods are not believed: their cards may be given twice. Unsigned "
                "and of HAMi's scheduler: --interop; signed by another key: give it back; else "
                "forged",
                GS_LOG_UINT("pods", n), GS_LOG_CSTR("first", names));
}

void gs_doubt_fini(struct gs_doubt *doubt)
{
    size_t pos = 0;
    void *pod;

    if (doubt->loop != NULL)
        gs_loop_timer_cancel(doubt->loop, &doubt->tell);
    while ((pod = gs_map_next(&doubt->pod, &pos)) != NULL)
        free(pod);
    gs_map_fini(&doubt->pod);
}

void gs_doubt_saw(struct gs_doubt *doubt, struct gs_str uid, struct gs_str ns, struct gs_str name,
                  bool is_doubted)
{
    bool was = gs_map_find(&doubt->pod, uid) != NULL;
    struct doubted *pod;
    struct gs_str key;

    if (is_doubted == was)
        return;
    if (is_doubted) {
        pod = gs_map_make(&doubt->pod, uid, sizeof(*pod), &key);
        if (pod == NULL)
            return;
        (void)snprintf(pod->name, sizeof(pod->name), "%.*s/%.*s", (int)ns.n, ns.p, (int)name.n,
                       name.p);
    } else {
        free(gs_map_remove(&doubt->pod, uid));
    }
    if (!gs_loop_timer_is_set(&doubt->tell))
        gs_loop_timer_in(doubt->loop, &doubt->tell, GS_DOUBT_TELL_MS, tell, doubt);
}
