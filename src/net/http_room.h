#pragma once
/* Who loses a connection when a listener has as many as it may have. So that nobody is kept out by
 * peers that hold connections and do nothing with them, the one that has waited for its peer the
 * longest goes, in this order:
 *
 *   whose   the newcomer's own peer, where that has more than its share; else a peer that has more
 *           than its share; else anybody
 *   which   those that never completed a request, those between two requests, those in the middle
 *           of one whose next bytes are the peer's to send or to take
 *
 * Connections whose request is being handled stay: the answer is ours to give. A peer is an
 * address. While there is room nobody's share is looked at.
 * Threads  the loop's. */

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/map.h"
#include "core/cleanup.h"
#include "core/list.h"

/** What a connection waits for, in the order in which they are closed. */
enum gs_http_room_wait {
    GS_HTTP_ROOM_FIRST, /**< its first request; TLS perhaps unfinished */
    GS_HTTP_ROOM_NEXT,  /**< the next one */
    GS_HTTP_ROOM_PEER,  /**< the rest of a request, or the peer to take the answer */
    GS_HTTP_ROOM_WAITS,
    GS_HTTP_ROOM_OURS = GS_HTTP_ROOM_WAITS, /**< for us: not closed */
};

struct gs_http_room_peer;

/** A connection's place; zeroed: it has none. */
struct gs_http_room_seat {
    void *owner; /**< the user's */
    struct gs_http_room_peer *peer;
    enum gs_http_room_wait wait;
    /** In the lists below; those that wait for us are in none. */
    GS_LINK(struct gs_http_room_seat) in_all, in_peer;
};

/** Connections that wait, longest first. */
struct gs_http_room_queue {
    GS_LIST(struct gs_http_room_seat) of[GS_HTTP_ROOM_WAITS];
};

struct gs_http_room {
    size_t most;  /**< connections */
    size_t share; /**< of one peer, before its own are the first to be closed */
    size_t n;
    struct gs_http_room_queue all;
    struct gs_map peers;                      /**< by address */
    GS_LIST(struct gs_http_room_peer) greedy; /**< those beyond their share */
};

void gs_http_room_init(struct gs_http_room *room, size_t most, size_t share);
/** Every place has been given up. Accepts zeroed objects. */
void gs_http_room_fini(struct gs_http_room *room);

/** Take a place, GS_HTTP_ROOM_FIRST; it is counted beyond `most`, too. 0; -ENOMEM: it has none. */
GS_WUR int gs_http_room_enter(struct gs_http_room *room, struct gs_http_room_seat *seat,
                              const struct sockaddr *peer);
/** It waits from now on for something else, or anew. One without a place: nothing. */
void gs_http_room_wait(struct gs_http_room *room, struct gs_http_room_seat *seat,
                       enum gs_http_room_wait wait);
/** Give the place up; once more: nothing. */
void gs_http_room_leave(struct gs_http_room *room, struct gs_http_room_seat *seat);

/** Who has to leave for one that just entered; still has its place.
 *  Returns NULL: there is room, or nobody can. */
struct gs_http_room_seat *gs_http_room_crowded(const struct gs_http_room *room,
                                               const struct gs_http_room_seat *newcomer);
