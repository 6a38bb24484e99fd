#include "monitor/part.h"

#include "core/cleanup.h"

/* Gauss-Legendre, 16 points: exact for polynomials up to degree 31. Positive half of the nodes on
 * -1..1 with their weights; Abramowitz and Stegun,
 * Handbook of Mathematical Functions, table 25.4. */
static const struct {
    double node, weight;
} rule[] = {
    {0.09501250983763744019, 0.18945061045506849629},
    {0.28160355077925891323, 0.18260341504492358887},
    {0.45801677765722738634, 0.16915651939500253819},
    {0.61787624440264374845, 0.14959598881657673208},
    {0.75540440835500303390, 0.12462897125553387205},
    {0.86563120238783174388, 0.09515851168249278481},
    {0.94457502307323257608, 0.06225352393864789286},
    {0.98940093499164993260, 0.02715245941175409485},
};
#define EXACT_MAX 32u /* processes: the integrand has one factor less */

/* Rounds of the fixed point; each brings an overestimate of the parts closer. */
#define ROUNDS 64
#define CLOSE  1e-9

static void add_point(const double *density, uint32_t n, double x, double weight, double *part)
{
    double product = weight;

    for (uint32_t i = 0; i < n; i++)
        product *= 1.0 - density[i] * (1.0 - x);
    for (uint32_t i = 0; i < n; i++)
        part[i] += product / (1.0 - density[i] * (1.0 - x)); /* x > 0: never by zero */
}

static void add_panel(const double *density, uint32_t n, double from, double to, double *part)
{
    double middle = (from + to) / 2, half = (to - from) / 2;

    for (uint32_t i = 0; i < GS_ARRAY_LEN(rule); i++) {
        add_point(density, n, middle - half * rule[i].node, half * rule[i].weight, part);
        add_point(density, n, middle + half * rule[i].node, half * rule[i].weight, part);
    }
}

void gs_part_each(const double *density, uint32_t n, double *ret_part)
{
    double gap = 1.0;

    for (uint32_t i = 0; i < n; i++)
        ret_part[i] = 0.0;
    /* with many processes the integrand lives within 1/n of x = 1: panels that halve towards it */
    for (uint32_t left = n; left > EXACT_MAX / 2 && n > EXACT_MAX; left /= 2, gap /= 2)
        add_panel(density, n, 1.0 - gap, 1.0 - gap / 2, ret_part);
    add_panel(density, n, 1.0 - gap, 1.0, ret_part);
}

void gs_part_densities(double *density, uint32_t n_known, const double *used, uint32_t n_used,
                       double *scratch)
{
    double *found = density + n_known;
    double change = 1.0;

    for (uint32_t i = 0; i < n_used; i++)
        found[i] = used[i];
    /* from below: a density grows with those of the others, and none beyond 1 */
    for (int round = 0; round < ROUNDS && change > CLOSE; round++) {
        change = 0.0;
        gs_part_each(density, n_known + n_used, scratch);
        for (uint32_t i = 0; i < n_used; i++) {
            double next = used[i] < scratch[n_known + i] ? used[i] / scratch[n_known + i] : 1.0;

            if (next > found[i] + change)
                change = next - found[i];
            found[i] = next;
        }
    }
}
