#pragma once
/* Lists whose entries carry their own links, in both directions: nothing is allocated, and any
 * entry leaves at once. Macros, because the links are of the entries' own type, so that a list is
 * walked by a plain loop: for (e = list.first; e != NULL; e = e->link.next). One that takes entries
 * out as it goes reads `next` first.
 *
 * Arguments are read once, but for `list`. */

#include <stddef.h>

/** A list of entries of a type. Zeroed: empty. */
#define GS_LIST(type)                                                                              \
    struct {                                                                                       \
        type *first, *last;                                                                        \
    }

/** A member of the entries, by which they are in one list. Its members are read, not written. */
#define GS_LINK(type)                                                                              \
    struct {                                                                                       \
        type *next, *prev;                                                                         \
    }

/** Put an entry that is in no list (by this link) right behind `before`; NULL: in front of all. */
#define GS_LIST_INSERT(list, before, entry, link)                                                  \
    do {                                                                                           \
        __typeof__(entry) new_ = (entry), before_ = (before);                                      \
                                                                                                   \
        new_->link.prev = before_;                                                                 \
        new_->link.next = before_ != NULL ? before_->link.next : (list)->first;                    \
        *(before_ != NULL ? &before_->link.next : &(list)->first) = new_;                          \
        *(new_->link.next != NULL ? &new_->link.next->link.prev : &(list)->last) = new_;           \
    } while (0)

/** In front of all, and behind all. */
#define GS_LIST_PUSH(list, entry, link)   GS_LIST_INSERT(list, NULL, entry, link)
#define GS_LIST_APPEND(list, entry, link) GS_LIST_INSERT(list, (list)->last, entry, link)

/** Take an entry out of the list it is in. */
#define GS_LIST_REMOVE(list, entry, link)                                                          \
    do {                                                                                           \
        __typeof__(entry) old_ = (entry);                                                          \
                                                                                                   \
        *(old_->link.prev != NULL ? &old_->link.prev->link.next : &(list)->first) =                \
            old_->link.next;                                                                       \
        *(old_->link.next != NULL ? &old_->link.next->link.prev : &(list)->last) =                 \
            old_->link.prev;                                                                       \
        old_->link.next = old_->link.prev = NULL;                                                  \
    } while (0)
