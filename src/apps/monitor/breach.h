#pragma once
/* What is done about a container that uses more of a card than its slice: an event and a label of
 * its pod, and by option its eviction. */

#include <stdbool.h>
#include <stdint.h>

#include "monitor/tenants.h"

struct gs_kube_client;
struct gs_kube_events;

/** All copied; failures are logged, and tried again with the next call for that container. */
void gs_breach_act(struct gs_kube_client *client, struct gs_kube_events *events, bool evicts,
                   const struct gs_tenants_who *who, const struct gs_tenants_device *device,
                   uint64_t slice_bytes);
