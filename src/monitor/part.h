#pragma once
/* How a card's time is split between processes that have work on it.
 *
 * A card gives turns evenly to the processes that have something outstanding; while K others have,
 * one process has the card for 1 / (1 + K) of the time. Of the others we know their densities: the
 * part of a short while in which each had work outstanding. Taken as independent of each other, the
 * expected part is E[1 / (1 + K)] = integral over x in 0..1 of the product of (1 - d + d x).
 *
 * Where one has work all the time independence is no assumption at all; elsewhere the parts add up
 * to the time in which anybody had work, as they must. Pure; any thread. */

#include <stdint.h>

/** Parts of each of n processes.
 *  @density   n values in 0..1.
 *  @ret_part  n values in 0..1: of the time in which process i has work outstanding, the part in
 *             which it has the card. Exact to rounding up to 32 processes, else to about 1e-12. */
void gs_part_each(const double *density, uint32_t n, double *ret_part);

/** Densities of processes that are known by the card time they used.
 *  @density   n_known values in 0..1, then n_used values to be filled.
 *  @used      n_used values in 0..1: parts of the card's time. What the card cannot have given
 *             beside the others becomes a density of 1.
 *  @scratch   n_known + n_used values. */
void gs_part_densities(double *density, uint32_t n_known, const double *used, uint32_t n_used,
                       double *scratch);
