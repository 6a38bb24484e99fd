#include "node/health.h"

#include <stdio.h>
#include <string.h>

/* Answers that may fail before a card counts as silent: one can be an accident of the asking. */
#define MISSES 2

static size_t number_of(size_t card, int part)
{
    return card * (1 + GS_INVENTORY_PARTS) + (size_t)(1 + part);
}

static bool is_known(const struct gs_health *health, size_t card, int part)
{
    return card < health->n_cards && part >= -1 && part < GS_INVENTORY_PARTS;
}

void gs_health_init(struct gs_health *health, size_t n_cards, uint64_t now_ns)
{
    *health = (struct gs_health){
        .n_cards = n_cards < GS_INVENTORY_CARDS ? n_cards : GS_INVENTORY_CARDS,
    };
    for (size_t i = 0; i < GS_HEALTH_UNITS; i++)
        health->unit[i] = (struct gs_health_unit){.answered_ns = now_ns, .since_ns = now_ns};
}

/* A part is not asked: its card's answer is its own. */
static enum gs_sick why_of(const struct gs_health *health, const struct gs_health_unit *unit,
                           uint64_t answered_ns, uint64_t now_ns)
{
    if (health->is_away)
        return GS_SICK_DRIVER;
    if (unit->answer == GS_ANSWER_LOST)
        return GS_SICK_LOST;
    if (unit->answer == GS_ANSWER_RESET || unit->reset != GS_HARM_NONE)
        return GS_SICK_RESET;
    if (unit->answer == GS_ANSWER_SILENT && unit->misses >= MISSES)
        return GS_SICK_SILENT;
    if (unit->was_hit && (now_ns < unit->quiet_ns || answered_ns < unit->quiet_ns))
        return GS_SICK_ERROR;
    return GS_SICK_NOT;
}

bool gs_health_tick(struct gs_health *health, uint64_t now_ns)
{
    bool is_new = false;

    for (size_t card = 0; card < health->n_cards; card++)
        for (int part = -1; part < GS_INVENTORY_PARTS; part++) {
            struct gs_health_unit *unit = &health->unit[number_of(card, part)];
            uint64_t answered_ns = health->unit[number_of(card, -1)].answered_ns;
            enum gs_sick why = why_of(health, unit, answered_ns, now_ns);

            if (why == unit->why)
                continue;
            unit->why = why;
            unit->since_ns = now_ns;
            unit->was_hit &= why != GS_SICK_NOT;
            is_new = true;
        }
    return is_new;
}

static void take_error(struct gs_health_unit *unit, const struct gs_note *note, uint64_t now_ns)
{
    if (note->harm == GS_HARM_NONE)
        return;
    unit->code = note->code;
    unit->errors++;
    unit->was_hit = true;
    unit->quiet_ns = now_ns + GS_HEALTH_QUIET_NS;
    if (note->harm > GS_HARM_PASSES && note->harm > unit->reset)
        unit->reset = note->harm;
}

/* The card was away or its driver was, and is there again: what needed a reset had it. */
static void renew(struct gs_health *health, size_t card)
{
    for (int part = -1; part < GS_INVENTORY_PARTS; part++)
        health->unit[number_of(card, part)].reset = GS_HARM_NONE;
}

static void forgive(struct gs_health *health, size_t card, uint64_t now_ns)
{
    for (int part = -1; part < GS_INVENTORY_PARTS; part++) {
        struct gs_health_unit *unit = &health->unit[number_of(card, part)];

        if (unit->reset == GS_HARM_RESET_OR_SAID && now_ns >= unit->quiet_ns)
            unit->reset = GS_HARM_NONE;
    }
}

static void take_answer(struct gs_health *health, size_t card, enum gs_answer answer,
                        uint64_t now_ns)
{
    struct gs_health_unit *unit = &health->unit[number_of(card, -1)];
    bool is_there = answer == GS_ANSWER_FINE || answer == GS_ANSWER_CLEAN;

    if (is_there && unit->answer == GS_ANSWER_LOST)
        renew(health, card);
    if (answer == GS_ANSWER_CLEAN)
        forgive(health, card, now_ns);
    unit->misses = answer == GS_ANSWER_SILENT ? unit->misses + 1 : 0;
    if (is_there)
        unit->answered_ns = now_ns;
    unit->answer = answer;
}

static void take_driver(struct gs_health *health, bool is_away)
{
    if (health->is_away && !is_away)
        for (size_t card = 0; card < health->n_cards; card++) {
            struct gs_health_unit *unit = &health->unit[number_of(card, -1)];

            renew(health, card);
            /* nothing of before counts: well once it answers */
            unit->answer = GS_ANSWER_SILENT;
            unit->misses = MISSES;
            for (int part = -1; part < GS_INVENTORY_PARTS; part++)
                health->unit[number_of(card, part)].was_hit = false;
        }
    health->is_away = is_away;
}

bool gs_health_take(struct gs_health *health, const struct gs_note *note, uint64_t now_ns)
{
    switch (note->kind) {
    case GS_NOTE_ERROR:
        if (is_known(health, note->card, note->part))
            take_error(&health->unit[number_of(note->card, note->part)], note, now_ns);
        break;
    case GS_NOTE_ANSWER:
        if (is_known(health, note->card, -1))
            take_answer(health, note->card, note->answer, now_ns);
        break;
    case GS_NOTE_DRIVER_GONE:
    case GS_NOTE_DRIVER_BACK:
        take_driver(health, note->kind == GS_NOTE_DRIVER_GONE);
        break;
    case GS_NOTE_OTHER_CARDS:
        break; /* whoever reads the inventory begins anew */
    }
    return gs_health_tick(health, now_ns);
}

const struct gs_health_unit *gs_health_find(const struct gs_health *health, size_t card, int part)
{
    return is_known(health, card, part) ? &health->unit[number_of(card, part)] : NULL;
}

enum gs_sick gs_health_why(const struct gs_health *health, size_t card, int part)
{
    enum gs_sick why;

    if (!is_known(health, card, part))
        return GS_SICK_LOST;
    why = health->unit[number_of(card, -1)].why;
    return why == GS_SICK_NOT ? health->unit[number_of(card, part)].why : why;
}

const char *gs_health_word(enum gs_sick why)
{
    switch (why) {
    case GS_SICK_NOT:
        return "well";
    case GS_SICK_ERROR:
        return "reported an error";
    case GS_SICK_RESET:
        return "has to be reset";
    case GS_SICK_SILENT:
        return "does not answer";
    case GS_SICK_LOST:
        return "is lost";
    case GS_SICK_DRIVER:
        return "is without its driver";
    }
    return "unknown";
}

const char *gs_health_text(const struct gs_health *health, size_t card, int part, const char *word,
                           const char *(*text)(uint64_t code), char ret_text[GS_HEALTH_TEXT])
{
    const struct gs_health_unit *unit = gs_health_find(health, card, -1);
    enum gs_sick why = gs_health_why(health, card, part);
    const char *words;

    if (unit != NULL && unit->why == GS_SICK_NOT)
        unit = gs_health_find(health, card, part);
    if (unit == NULL || unit->code == 0 || (why != GS_SICK_ERROR && why != GS_SICK_RESET)) {
        (void)snprintf(ret_text, GS_HEALTH_TEXT, "%s", gs_health_word(why));
        return ret_text;
    }
    words = text != NULL ? text(unit->code) : NULL;
    (void)snprintf(ret_text, GS_HEALTH_TEXT, "%s (%s %llu%s%s)", gs_health_word(why), word,
                   (unsigned long long)unit->code, words != NULL ? ", " : "",
                   words != NULL ? words : "");
    return ret_text;
}
