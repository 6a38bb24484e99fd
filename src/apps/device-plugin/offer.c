#include "apps/device-plugin/offer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/device-plugin/state.h"
#include "base/log.h"
#include "contract/names.h"
#include "node/health.h"
#include "node/inventory.h"
#include "node/publish.h"
#include "node/shares.h"

static void on_left_out(void *user, const char *text)
{
    (void)user;
    GS_LOG_WARN("a card is not offered as it is", GS_LOG_CSTR("text", text));
}

/* "vendor.com/gpu" -> "<prefix>-gpu.sock" */
static void name_endpoint(struct gs_daemon *d, struct gs_plugin_engine *e)
{
    const char *slash = strrchr(e->resource, '/');

    (void)snprintf(e->endpoint, sizeof(e->endpoint), "%s-%s.sock", d->kit.vendor->endpoint,
                   slash != NULL ? slash + 1 : e->resource);
}

static int start_engine(struct gs_daemon *d, const struct gs_offer *offer,
                        struct gs_plugin_engine *e, struct gs_err *err)
{
    memcpy(e->resource, offer->resource, sizeof(e->resource));
    name_endpoint(d, e);
    e->identity = offer->part >= 0     ? GS_IDENTITY_PARTS
                  : d->handout != NULL ? GS_IDENTITY_ALLOCATE
                                       : GS_IDENTITY_PRESTART;
    return gs_engine_new(
        &(struct gs_engine_opt){
            .loop = d->loop,
            .grpc = d->grpc,
            .folder = d->folder,
            .kubelet_socket = d->flags->kubelet_socket,
            .endpoint = e->endpoint,
            .resource = e->resource,
            .identity = e->identity,
            .prefers = e->identity != GS_IDENTITY_PARTS && d->kit.vendor->prefers(d->kit.conf),
            .kit = &d->kit,
            .grants = d->grants,
            .provision = e->identity == GS_IDENTITY_PRESTART ? d->provision : NULL,
            .handout = d->handout,
        },
        &e->engine, err);
}

static struct gs_plugin_engine *find_engine(struct gs_daemon *d, const struct gs_offer *offer)
{
    struct gs_err err = {0};

    for (size_t i = 0; i < GS_PLUGIN_ENGINES; i++) {
        struct gs_plugin_engine *e = &d->engine[i];

        if (e->engine != NULL && strcmp(e->resource, offer->resource) == 0)
            return e;
        if (e->engine != NULL)
            continue;
        if (start_engine(d, offer, e, &err) == 0)
            return e;
        GS_LOG_ERROR("a resource cannot be offered", GS_LOG_CSTR("resource", offer->resource),
                     GS_LOG_ERR(&err));
        return NULL;
    }
    return NULL;
}

static struct gs_shares_card share_of(const struct gs_daemon *d, const struct gs_inventory *inv,
                                      const struct gs_health *health, const struct gs_offer *offer)
{
    const struct gs_inventory_card *card = &inv->card[offer->card];
    const char *uuid = offer->part >= 0 ? card->part[offer->part].uuid : card->uuid;
    struct gs_shares_card share = {
        .count = offer->part >= 0 ? 0 : (uint32_t)offer->n_shares,
        .numa = d->kit.vendor->tells_numa(d->kit.conf) ? card->numa : -1,
        .is_healthy = gs_health_why(health, offer->card, offer->part) == GS_SICK_NOT,
    };

    memcpy(share.uuid, uuid, sizeof(share.uuid));
    return share;
}

/* The list of one resource: of all offers, those of its name. */
static void offer_resource(struct gs_daemon *d, const struct gs_inventory *inv,
                           const struct gs_health *health, const struct gs_published *published,
                           const char *resource)
{
    struct gs_shares_card *share = calloc(published->n_offers + 1, sizeof(*share));
    struct gs_plugin_engine *engine = NULL;
    struct gs_err err = {0};
    size_t n = 0;

    for (size_t i = 0; share != NULL && i < published->n_offers; i++) {
        const struct gs_offer *offer = &published->offer[i];

        if (strcmp(offer->resource, resource) != 0)
            continue;
        if (engine == NULL)
            engine = find_engine(d, offer);
        share[n++] = share_of(d, inv, health, offer);
    }
    if (engine != NULL && gs_engine_set_cards(engine->engine, share, n, &err) < 0)
        GS_LOG_ERROR("the list of devices stays as it was", GS_LOG_CSTR("resource", resource),
                     GS_LOG_ERR(&err));
    free(share);
}

static bool is_offered(const struct gs_published *published, const char *resource, size_t before)
{
    for (size_t i = 0; i < before; i++)
        if (strcmp(published->offer[i].resource, resource) == 0)
            return true;
    return false;
}

/* A resource that has no device any more stays with an empty list: pods that use it run on. */
static void offer_none(struct gs_daemon *d, const struct gs_published *published)
{
    for (size_t i = 0; i < GS_PLUGIN_ENGINES; i++) {
        struct gs_plugin_engine *e = &d->engine[i];

        if (e->engine != NULL && !is_offered(published, e->resource, published->n_offers) &&
            gs_engine_set_cards(e->engine, NULL, 0, NULL) < 0)
            GS_LOG_ERROR("the list of devices stays as it was",
                         GS_LOG_CSTR("resource", e->resource));
    }
}

void gs_offer_cards(struct gs_daemon *d, const struct gs_inventory *inv,
                    const struct gs_health *health)
{
    const struct gs_publish_vendor *vendor = d->kit.vendor->publish;
    const char *scores = getenv("ENABLE_TOPOLOGY_SCORE");
    struct gs_published published = {0};
    struct gs_err err = {0};
    int rc;

    d->kit.inv = inv;
    rc = vendor->publish(
        &(struct gs_publish_from){
            .inv = inv,
            .health = health,
            .device_config = {d->device_config.p, d->device_config.n},
            .node_config = {d->node_config.p, d->node_config.n},
            .node = gs_str_of(d->flags->node_name),
            .as_text = strcmp(d->flags->register_format, "text") == 0,
            .tell = &(struct gs_inventory_tell){.tell = on_left_out},
        },
        &published, &err);
    if (rc < 0) {
        GS_LOG_ERROR("cards cannot be offered", GS_LOG_ERR(&err));
        return;
    }
    for (size_t i = 0; i < published.n_offers; i++)
        if (!is_offered(&published, published.offer[i].resource, i))
            offer_resource(d, inv, health, &published, published.offer[i].resource);
    offer_none(d, &published);
    gs_report_set(d->report, vendor->register_key, gs_buf_str(&published.registered));
    if (scores != NULL && strcmp(scores, "true") == 0)
        gs_report_set(d->report, vendor->score_key, gs_buf_str(&published.scores));
    gs_report_set(d->report, GS_NAME_IDENTITY,
                  d->handout == NULL ? GS_STR(GS_NAME_IDENTITY_PRESTART) : (struct gs_str){0});
    gs_published_fini(&published);
}
