#include "net/http_room.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "net/addr.h"

struct gs_http_room_peer {
    struct gs_str key;
    size_t n;
    struct gs_http_room_queue queue;
    GS_LINK(struct gs_http_room_peer) link; /**< in `greedy` */
};

void gs_http_room_init(struct gs_http_room *room, size_t most, size_t share)
{
    *room = (struct gs_http_room){.most = most, .share = share};
    gs_map_init(&room->peers);
}

void gs_http_room_fini(struct gs_http_room *room)
{
    gs_map_fini(&room->peers);
}

static struct gs_http_room_peer *peer_of(struct gs_http_room *room, const struct sockaddr *sa)
{
    unsigned char host[GS_ADDR_HOST];
    struct gs_str key = {(const char *)host, sizeof(host)}, kept;

    gs_addr_host(sa, host);
    struct gs_http_room_peer *peer = gs_map_find(&room->peers, key);
    if (!peer) {
        peer = gs_map_make(&room->peers, key, sizeof(*peer), &kept);
        if (peer)
            peer->key = kept;
    }
    return peer;
}

static void queue_up(struct gs_http_room *room, struct gs_http_room_seat *seat,
                     enum gs_http_room_wait wait)
{
    seat->wait = wait;
    if (wait == GS_HTTP_ROOM_OURS)
        return;
    GS_LIST_APPEND(&room->all.of[wait], seat, in_all);
    GS_LIST_APPEND(&seat->peer->queue.of[wait], seat, in_peer);
}

static void step_out(struct gs_http_room *room, struct gs_http_room_seat *seat)
{
    if (seat->wait == GS_HTTP_ROOM_OURS)
        return;
    GS_LIST_REMOVE(&room->all.of[seat->wait], seat, in_all);
    GS_LIST_REMOVE(&seat->peer->queue.of[seat->wait], seat, in_peer);
}

int gs_http_room_enter(struct gs_http_room *room, struct gs_http_room_seat *seat,
                       const struct sockaddr *sa)
{
    struct gs_http_room_peer *peer = peer_of(room, sa);

    if (!peer)
        return -ENOMEM;
    seat->peer = peer;
    room->n++;
    if (peer->n++ == room->share)
        GS_LIST_APPEND(&room->greedy, peer, link);
    queue_up(room, seat, GS_HTTP_ROOM_FIRST);
    return 0;
}

void gs_http_room_wait(struct gs_http_room *room, struct gs_http_room_seat *seat,
                       enum gs_http_room_wait wait)
{
    if (!seat->peer)
        return;
    step_out(room, seat);
    queue_up(room, seat, wait);
}

void gs_http_room_leave(struct gs_http_room *room, struct gs_http_room_seat *seat)
{
    struct gs_http_room_peer *peer = seat->peer;

    if (!peer)
        return;
    step_out(room, seat);
    seat->peer = NULL;
    room->n--;
    if (--peer->n == room->share)
        GS_LIST_REMOVE(&room->greedy, peer, link);
    if (peer->n == 0) {
        (void)gs_map_remove(&room->peers, peer->key);
        free(peer);
    }
}

/** The one that has waited longest, not counting the newcomer. */
static struct gs_http_room_seat *first_of(const struct gs_http_room_queue *queue, bool is_of_peer,
                                          const struct gs_http_room_seat *newcomer)
{
    for (size_t wait = 0; wait < GS_HTTP_ROOM_WAITS; wait++) {
        struct gs_http_room_seat *seat = queue->of[wait].first;
        if (seat && seat == newcomer)
            seat = is_of_peer ? seat->in_peer.next : seat->in_all.next;
        if (seat)
            return seat;
    }
    return NULL;
}

struct gs_http_room_seat *gs_http_room_crowded(const struct gs_http_room *room,
                                               const struct gs_http_room_seat *newcomer)
{
    const struct gs_http_room_peer *peer = newcomer->peer;
    struct gs_http_room_seat *seat = NULL;

    if (room->n <= room->most)
        return NULL;
    if (peer->n > room->share)
        seat = first_of(&peer->queue, true, newcomer);
    for (peer = room->greedy.first; peer && !seat; peer = peer->link.next)
        seat = first_of(&peer->queue, true, newcomer);
    return seat ? seat : first_of(&room->all, false, newcomer);
}
