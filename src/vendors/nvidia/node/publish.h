#pragma once
/* What a node says of its NVIDIA cards in annotations, and under which names the kubelet gives them
 * out. Pure.
 * Source   HAMi v2.10 device plugin (hami.io/node-nvidia-register, hami.io/node-nvidia-score);
 *          NVIDIA k8s-device-plugin, MIG strategies. */

#include <stdbool.h>
#include <stddef.h>

#include "core/cleanup.h"
#include "node/publish.h"
#include "vendors/nvidia/policy/settings.h"

extern const struct gs_publish_vendor gs_nvidia_publish_vendor;

/** Cards as schedulers read them, by index: JSON as HAMi writes it, or the text of HAMi up to v2.7.
 *  Cards given out in MIG devices, those filtered out, and such as do not say how much memory they
 * have where no figure is preset, are left out.
 *  Returns  how many cards; -ENOMEM. */
GS_WUR int gs_nvidia_register(const struct gs_publish_from *from,
                              const struct gs_nvidia_settings *settings, struct gs_buf *ret);
/** Scores of all pairs. A pair whose cards disagree on their links is told, and has 0. */
void gs_nvidia_scores(const struct gs_publish_from *from, const struct gs_nvidia_settings *settings,
                      struct gs_buf *ret);
/** What the kubelet is offered under the settings' MIG strategy: nvidia.com/gpu, and with `mixed`
 *  nvidia.com/mig-<profile> ('+' becomes '.'). @ret  GS_OFFERS entries.
 *  Returns  how many; -EINVAL `single`, and the cards' MIG devices are not all of one profile or
 *           some card has none (err says which): nothing may be offered then. */
#define GS_OFFERS (GS_INVENTORY_CARDS * GS_INVENTORY_PARTS)
GS_WUR int gs_nvidia_offers(const struct gs_publish_from *from,
                            const struct gs_nvidia_settings *settings, struct gs_offer *ret,
                            struct gs_err *err);
