#pragma once
/* What tests of vendors' policies share: one pod, one node, and the questions a scheduler asks of
 * them. A step that a test takes for granted asserts that it works. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "model/fit.h"
#include "model/place.h"
#include "model/pod.h"
#include "model/policy.h"

#define KIT_MAX 64

struct kit {
    struct gs_arena arena;
    struct gs_policies policies;
    const struct gs_policy *policy; /**< of the word given to kit_init() */
    struct gs_pod pod;
    struct gs_container container[KIT_MAX];
    struct gs_request request[KIT_MAX];
    struct gs_pairs node_annotations, node_labels, capacity;
    struct gs_node node;
    struct gs_group group;
    struct gs_wish wish;            /**< of the pod, as kit_fit() read it last */
    struct gs_use use[KIT_MAX];     /**< before the pod */
    struct gs_use fit_use[KIT_MAX]; /**< with what kit_fit() chose */
    uint32_t order[KIT_MAX];        /**< as registered, unless the test changes it */
    struct gs_device_policy device_policy;
    struct gs_taken taken[KIT_MAX];
    size_t n_taken;
    struct gs_pick pick[KIT_MAX][KIT_MAX];
    size_t n_picks[KIT_MAX];
    struct gs_reasons reasons;
    struct gs_buf text;
    struct gs_err err;
};

/** The policy `word` of a section made from `conf` (NULL: the chart's defaults). */
void kit_init(struct kit *kit, const struct gs_policy_section *section, const void *conf,
              const char *word);
void kit_fini(struct kit *kit);

/** A further app container; its index. */
size_t kit_container(struct kit *kit, const char *name);
void kit_limit(struct kit *kit, size_t container, const char *name, const char *value);
void kit_request(struct kit *kit, size_t container, const char *name, const char *value);
void kit_annotate_pod(struct kit *kit, const char *key, const char *value);
/** "gpu=1 gpumem=2000" as limits or requests of container 0, each name behind `prefix`. */
void kit_ask_of(struct kit *kit, void (*set_one)(struct kit *, size_t, const char *, const char *),
                const char *prefix, const char *amounts);
/** Values as they are now; NULL: none. */
const char *kit_env_of(struct kit *kit, size_t container, const char *name);
const char *kit_limit_of(struct kit *kit, size_t container, const char *name);
const char *kit_request_of(struct kit *kit, size_t container, const char *name);
const char *kit_annotation_of(struct kit *kit, const char *key);

int kit_admit(struct kit *kit, size_t container);
/** What the container asks for; kept for kit_fit(). */
struct gs_request kit_ask(struct kit *kit, size_t container);

void kit_annotate_node(struct kit *kit, const char *key, const char *value);
void kit_label_node(struct kit *kit, const char *key, const char *value);
void kit_capacity(struct kit *kit, const char *name, const char *value);
/** Devices of the node "node1"; all unused. The policy's answer. */
int kit_read_node(struct kit *kit);
/** A device of the node, to be changed. */
struct gs_device *kit_device(struct kit *kit, size_t at);

/** Fit the container with kit->request[container] and book what was chosen. The policy's answer. */
int kit_fit(struct kit *kit, size_t container);
/** kit_fit() of container 0 on the node as it was before, for (cards, MiB, percent, cores). */
int kit_fit_for(struct kit *kit, int32_t n, int32_t mem, int32_t pct, int32_t cores);
/** That it comes to these cards; that it fails with -ENOSPC and these reasons. */
void kit_want_fit(struct kit *kit, int32_t n, int32_t mem, int32_t pct, int32_t cores,
                  const char *chosen);
void kit_want_unfit(struct kit *kit, int32_t n, int32_t mem, int32_t pct, int32_t cores,
                    const char *reasons);
/** With all cards of the node cordoned kit_fit() finds CardCordoned for each and nothing else.
 *  Leaves the node read anew, without a cordon. */
void kit_want_cordoned(struct kit *kit, size_t container);
/** "2/8 CardNotHealth" of the last fit that failed. */
const char *kit_reasons(struct kit *kit);
/** Indexes of the devices chosen for a container: "0,1". */
const char *kit_chosen(struct kit *kit, size_t container);
/** Forget what was fitted; kit->use counts again. */
void kit_unfit(struct kit *kit);

double kit_score(struct kit *kit, bool is_spread);
/** The vendor's annotations for what was fitted. */
struct gs_pairs kit_write(struct kit *kit, int64_t now_ns);
const char *kit_written(struct kit *kit, const struct gs_pairs *pairs, const char *key);

/** Without memory the section, the node as it is set up and, where something was fitted, the
 *  writing say so, and add nothing. Leaves the kit as it was. */
void kit_no_memory(struct kit *kit, const struct gs_policy_section *section);
