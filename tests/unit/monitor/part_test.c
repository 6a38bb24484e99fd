#include "monitor/part.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#define MANY 1024

static double density[MANY], part[MANY], scratch[MANY];

static void near_to(double got, double want, double margin)
{
    double off = got > want ? got - want : want - got;

    if (!(off <= margin))
        print_error("got %.15f, wanted %.15f\n", got, want);
    assert_true(off <= margin);
}

/* By definition: the number of others at work has a distribution, built one process at a time. */
static double by_counting(uint32_t n, uint32_t self)
{
    static double p[MANY + 1];
    double sum = 0;

    p[0] = 1;
    for (uint32_t i = 1; i <= n; i++)
        p[i] = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (i == self)
            continue;
        for (uint32_t k = n; k-- > 0;)
            p[k + 1] = p[k + 1] * (1 - density[i]) + p[k] * density[i];
        p[0] *= 1 - density[i];
    }
    for (uint32_t k = 0; k < n; k++)
        sum += p[k] / (1 + k);
    return sum;
}

static void test_two_hungry_halve(void **state)
{
    (void)state;
    density[0] = density[1] = 1;
    gs_part_each(density, 2, part);
    near_to(part[0], 0.5, 1e-15);
    near_to(part[1], 0.5, 1e-15);
}

static void test_thirty_and_seventy(void **state)
{
    (void)state;
    /* 1 - 0.7 / 2 and 1 - 0.3 / 2; the used parts 0.195 + 0.595 = 1 - 0.7 x 0.3 */
    density[0] = 0.3;
    density[1] = 0.7;
    gs_part_each(density, 2, part);
    near_to(part[0], 0.65, 1e-15);
    near_to(part[1], 0.85, 1e-15);
}

static void test_three(void **state)
{
    (void)state;
    /* beside 1 and 0.5: half the time one other, half the time two */
    density[0] = 0.2;
    density[1] = 1;
    density[2] = 0.5;
    gs_part_each(density, 3, part);
    near_to(part[0], 0.5 * (1.0 / 2) + 0.5 * (1.0 / 3), 1e-15);
    /* beside 0.2 and 0.5: none 0.4, one 0.5, two 0.1 */
    near_to(part[1], 0.4 + 0.5 / 2 + 0.1 / 3, 1e-15);
}

static void test_alone_and_none(void **state)
{
    (void)state;
    gs_part_each(density, 0, part);
    density[0] = 0.37;
    gs_part_each(density, 1, part);
    near_to(part[0], 1, 1e-15);
}

static void test_many_hungry(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < MANY; i++)
        density[i] = 1;
    for (uint32_t n = 1; n <= MANY; n += n < 70 ? 1 : 53) {
        gs_part_each(density, n, part);
        near_to(part[0], 1.0 / n, 1e-13);
        near_to(part[n - 1], 1.0 / n, 1e-13);
    }
}

static void test_random_mixes(void **state)
{
    unsigned seed = getenv("GS_SEED") ? (unsigned)atoi(getenv("GS_SEED")) : (unsigned)time(NULL);

    (void)state;
    print_message("GS_SEED=%u\n", seed);
    for (int round = 0; round < 200; round++) {
        uint32_t n = 1 + (uint32_t)rand_r(&seed) % (round < 150 ? 40 : 200);
        double used = 0, idle = 1;

        for (uint32_t i = 0; i < n; i++) {
            double d = rand_r(&seed) / (double)RAND_MAX;

            density[i] = rand_r(&seed) % 4 == 0 ? 1 : round % 2 ? d : d * d * d;
        }
        gs_part_each(density, n, part);
        near_to(part[0], by_counting(n, 0), 1e-12);
        near_to(part[n / 2], by_counting(n, n / 2), 1e-12);
        for (uint32_t i = 0; i < n; i++) {
            used += density[i] * part[i];
            idle *= 1 - density[i];
        }
        near_to(used, 1 - idle, 1e-11); /* the card works while anybody has work */
    }
}

static void test_density_from_use(void **state)
{
    const double one[] = {0.3}, two[] = {0.25, 0.25}, much[] = {0.9};

    (void)state;
    /* beside one that always has work 0.3 of the card is had by having work 0.6 of the time */
    density[0] = 1;
    gs_part_densities(density, 1, one, 1, scratch);
    near_to(density[1], 0.6, 1e-8);
    /* alone it is the same thing */
    gs_part_densities(density, 0, one, 1, scratch);
    near_to(density[0], 0.3, 1e-8);
    /* more than its turns: it always has work */
    density[0] = 1;
    gs_part_densities(density, 1, much, 1, scratch);
    near_to(density[1], 1, 1e-8);
    /* two alike, d (1 - d / 2) = 1 / 4: d = 1 - sqrt(1 / 2) */
    gs_part_densities(density, 0, two, 2, scratch);
    near_to(density[0], 0.292893218813452, 1e-8);
    near_to(density[1], density[0], 1e-8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_hungry_halve),
        cmocka_unit_test(test_thirty_and_seventy),
        cmocka_unit_test(test_three),
        cmocka_unit_test(test_alone_and_none),
        cmocka_unit_test(test_many_hungry),
        cmocka_unit_test(test_random_mixes),
        cmocka_unit_test(test_density_from_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
