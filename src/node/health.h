#pragma once
/* Which cards and parts of a node can be given out, and when one that could not may be again: a
 * state machine that a vendor feeds with what it sees. Pure: time is a parameter.
 *
 * The rule. A card is sick
 * - while its driver is away, or it is lost, or its driver says that it has to be reset, or it has
 *   not answered twice;
 * - from an error on until GS_HEALTH_QUIET_NS have passed without another one and it has answered
 *   after that;
 * - from an error on after which a card is no good without a reset, until one was seen: the card or
 *   its driver was away and answers again; or, for errors that the driver itself keeps account of,
 *   until it says that nothing is to be done.
 *
 * Cards are asked every GS_HEALTH_ASK_NS, so one that recovers is given out again within 15 s, and
 * one whose driver is back within 5 s. A part of a card is sick with its card, or by errors of its
 * own.
 * Source   why errors are of these kinds: the vendor's table. HAMi and NVIDIA's device plugin know
 *          no way back but a restart. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/cleanup.h"
#include "node/inventory.h"

#define GS_HEALTH_QUIET_NS UINT64_C(10000000000)
#define GS_HEALTH_ASK_NS   UINT64_C(5000000000)
#define GS_HEALTH_UNITS    (GS_INVENTORY_CARDS * (1 + GS_INVENTORY_PARTS))

/** What an error means for the card it struck. */
enum gs_harm {
    GS_HARM_NONE,          /**< the program's own fault: the card is as good as before */
    GS_HARM_PASSES,        /**< the card may go on by itself */
    GS_HARM_RESET_OR_SAID, /**< needs a reset, unless a driver that keeps account says not */
    GS_HARM_RESET,         /**< needs a reset */
};

/** What a card answered. */
enum gs_answer {
    GS_ANSWER_FINE,   /**< it answers; the driver does not say whether something is to be done */
    GS_ANSWER_CLEAN,  /**< it answers, and the driver says that nothing is to be done */
    GS_ANSWER_RESET,  /**< the driver says that it has to be reset */
    GS_ANSWER_SILENT, /**< something else went wrong in asking */
    GS_ANSWER_LOST,   /**< it is not there any more */
};

enum gs_note_kind {
    GS_NOTE_ERROR,       /**< harm and code of an error */
    GS_NOTE_ANSWER,      /**< of a card */
    GS_NOTE_DRIVER_GONE, /**< of all cards */
    GS_NOTE_DRIVER_BACK, /**< of all cards; their answers follow */
    GS_NOTE_OTHER_CARDS, /**< more cards than in the inventory, or fewer: read it again */
};

/** One thing that a vendor saw. */
struct gs_note {
    enum gs_note_kind kind;
    uint32_t card; /**< position in the inventory */
    int32_t part;  /**< position on the card; -1: the card */
    enum gs_harm harm;
    enum gs_answer answer;
    uint64_t code; /**< of an error, as the vendor numbers them */
};

/** Why something is not to be given out. */
enum gs_sick {
    GS_SICK_NOT,
    GS_SICK_ERROR,
    GS_SICK_RESET,
    GS_SICK_SILENT,
    GS_SICK_LOST,
    GS_SICK_DRIVER,
};

struct gs_health_unit {
    enum gs_sick why; /**< of this one alone: a part's card may be sick besides */
    enum gs_answer answer;
    enum gs_harm reset;   /**< GS_HARM_RESET or _RESET_OR_SAID: awaited; else GS_HARM_NONE */
    uint32_t misses;      /**< answers in a row that did not come */
    uint64_t code;        /**< of the last error that did harm; 0: none yet */
    uint64_t errors;      /**< how many there were */
    uint64_t quiet_ns;    /**< when the quiet after the last error is over */
    uint64_t answered_ns; /**< when it last answered */
    uint64_t since_ns;    /**< when `why` last changed */
    bool was_hit;         /**< an error did harm since it was last well */
};

struct gs_health {
    size_t n_cards;
    bool is_away; /**< the driver is */
    struct gs_health_unit unit[GS_HEALTH_UNITS];
};

/** All well: what was found to answer. @n_cards of the inventory. */
void gs_health_init(struct gs_health *health, size_t n_cards, uint64_t now_ns);
/** Take a note. True where something became sick or well. */
bool gs_health_take(struct gs_health *health, const struct gs_note *note, uint64_t now_ns);
/** Let time pass. True as above. */
bool gs_health_tick(struct gs_health *health, uint64_t now_ns);

/** Why a card, or a part of it, is not to be given out; GS_SICK_NOT: it is well. */
enum gs_sick gs_health_why(const struct gs_health *health, size_t card, int part);
/** Its own state; NULL out of range. */
const struct gs_health_unit *gs_health_find(const struct gs_health *health, size_t card, int part);
/** For people: "needs a reset". */
const char *gs_health_word(enum gs_sick why);
/** One line for people: "has to be reset (after XID 79, GPU has fallen off the bus)". @word the
 *  vendor's name for its errors, @text its words for this one; NULL: none. Returns ret_text. */
#define GS_HEALTH_TEXT 200
const char *gs_health_text(const struct gs_health *health, size_t card, int part, const char *word,
                           const char *(*text)(uint64_t code), char ret_text[GS_HEALTH_TEXT]);

/* --- what a vendor contributes --- */

struct gs_health_watch;

struct gs_health_conf {
    const char *ignore; /**< DP_DISABLE_HEALTHCHECKS or NULL */
    const char *heed;   /**< DP_ENABLE_HEALTHCHECKS or NULL */
    const struct gs_inventory_tell *tell;
};

struct gs_health_vendor {
    const char *error_word; /**< "XID" */
    /** Begin to watch the cards of an inventory, which is copied. A card that reports no errors is
     *  told and only asked. Returns 0; -ENODEV; other negative errno with err. */
    int (*watch_new)(const struct gs_inventory *inv, const struct gs_health_conf *conf,
                     struct gs_health_watch **ret, struct gs_err *err);
    /** Wait for what happens, at most `timeout_ms`, and ask cards when it is time to.
     *  Returns how many notes, at most max (>= 3 + cards); 0: nothing new. Never fails: a driver
     *  that does not answer is a note.
     *  Threads  one at a time; blocks: not for a loop's thread. */
    size_t (*watch_wait)(struct gs_health_watch *watch, unsigned timeout_ms, struct gs_note *ret,
                         size_t max);
    /** Accepts NULL; returns NULL. */
    struct gs_health_watch *(*watch_free)(struct gs_health_watch *watch);
    /** A few words on an error; NULL: none are known. */
    const char *(*error_text)(uint64_t code);
    /** What an error does where nobody configured otherwise. */
    enum gs_harm (*usual_harm)(uint64_t code);
    /** Is this line of the kernel's log an error of a card? Its place on the bus as sysfs has it,
     *  and its number. */
    bool (*read_log_line)(const char *line, char ret_pci[32], uint64_t *ret_code);
};
