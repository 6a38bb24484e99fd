#include "vendors/kunlun/policy/wings.h"

#include <errno.h>
#include <stdbool.h>

#define LEFT  0x0fu
#define RIGHT 0xf0u

static uint32_t count(uint32_t cards)
{
    return (uint32_t)__builtin_popcount(cards);
}

static uint32_t lowest(uint32_t cards, uint32_t n)
{
    uint32_t taken = 0;

    for (; n > 0; n--) {
        taken |= cards & -cards;
        cards &= cards - 1;
    }
    return taken;
}

/* Are all cards of two connected? */
static bool is_linked(uint32_t two)
{
    return (two & LEFT) == 0 || (two & RIGHT) == 0 || (two & LEFT) == (two & RIGHT) >> 4;
}

/* In which order of open cards a wing is preferred. A single card goes first where it leaves an
 * even number behind. */
static uint32_t inside(uint32_t open, uint32_t n)
{
    static const uint32_t single[] = {1, 3, 2, 4};

    for (uint32_t i = n; i <= 4; i++) {
        uint32_t free_cards = n == 1 ? single[i - 1] : i;

        if (count(open & LEFT) == free_cards)
            return lowest(open & LEFT, n);
        if (count(open & RIGHT) == free_cards)
            return lowest(open & RIGHT, n);
    }
    return 0;
}

static uint32_t pair_across(uint32_t open)
{
    uint32_t left = lowest(open & LEFT & open >> 4, 1);

    return left | left << 4;
}

/* Squares of four cards, two of each wing: 0145, 2367, 0246, 1357, 0347, 1256. */
static uint32_t square_across(uint32_t open)
{
    static const uint32_t square[] = {0x33, 0xcc, 0x55, 0xaa, 0x99, 0x66};
    uint32_t last = 0;

    if (count(open) < 4 || count(open) > 6)
        return 0;
    for (uint32_t i = 0; i < sizeof(square) / sizeof(square[0]); i++) {
        if ((open & square[i]) != square[i])
            continue;
        /* of six, better leave two that are connected */
        if (count(open) < 6 || is_linked(open & ~square[i]))
            return square[i];
        last = square[i];
    }
    return last;
}

int gs_wings_choose(uint32_t open, int32_t n, uint32_t *ret)
{
    uint32_t cards = 0;

    open &= LEFT | RIGHT;
    if (n == 8)
        cards = open == (LEFT | RIGHT) ? open : 0;
    else if (n == 1 || n == 2 || n == 4)
        cards = inside(open, (uint32_t)n);
    if (cards == 0 && n == 2)
        cards = pair_across(open);
    if (cards == 0 && n == 4)
        cards = square_across(open);
    if (cards == 0)
        return -ENOSPC;
    *ret = cards;
    return 0;
}

static int bubbles_of_wing(uint32_t used)
{
    if (count(used) == 4)
        return 0;
    return count(used) == 1 ? 2 : 1;
}

int gs_wings_bubbles(uint32_t used)
{
    if (used == 0)
        return 1;
    return bubbles_of_wing(used & LEFT) + bubbles_of_wing(used & RIGHT);
}

double gs_wings_score(uint32_t before, uint32_t after)
{
    switch (gs_wings_bubbles(after) - gs_wings_bubbles(before)) {
    case -1:
        return 3000;
    case 0:
        return 2000;
    case 2:
        return 0;
    default:
        return 1000;
    }
}
