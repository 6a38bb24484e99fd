#include "kube/stamp.h"

#include <errno.h>

#define US_PER_S 1000000

/* Days from 1970-01-01 to a date of the proleptic Gregorian calendar: counted in eras of 400 years
 * that begin in March, so that the leap day comes last. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t of_era = y - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static void date_of(int64_t days, int *ret_year, int *ret_month, int *ret_day)
{
    int64_t z = days + 719468;
    int64_t era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t of_era = z - era * 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * of_year + 2) / 153;

    *ret_day = (int)(of_year - (153 * month + 2) / 5 + 1);
    *ret_month = (int)(month < 10 ? month + 3 : month - 9);
    *ret_year = (int)(year + era * 400 + (*ret_month <= 2));
}

static int days_in_month(int64_t year, int64_t month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    return month == 2 && is_leap ? 29 : days[month - 1];
}

/* Exactly n digits at the front, cut off. */
static bool digits(struct gs_str *s, int n, int64_t *ret)
{
    int64_t v = 0;

    if (s->n < (size_t)n)
        return false;
    for (int i = 0; i < n; i++) {
        if (s->p[i] < '0' || s->p[i] > '9')
            return false;
        v = v * 10 + (s->p[i] - '0');
    }
    s->p += n;
    s->n -= (size_t)n;
    *ret = v;
    return true;
}

static bool sign(struct gs_str *s, char c)
{
    if (s->n == 0 || s->p[0] != c)
        return false;
    s->p++;
    s->n--;
    return true;
}

static bool fraction(struct gs_str *s, int64_t *ret_us)
{
    int64_t unit = US_PER_S / 10, v = 0, digit;

    if (!sign(s, '.'))
        return true;
    if (!digits(s, 1, &digit))
        return false;
    do {
        v += digit * unit;
        unit /= 10;
    } while (digits(s, 1, &digit));
    *ret_us = v;
    return true;
}

static bool offset(struct gs_str *s, int64_t *ret_s)
{
    int64_t hour = 0, minute = 0, factor = 1;

    if (sign(s, 'Z') || sign(s, 'z'))
        return true;
    if (sign(s, '-'))
        factor = -1;
    else if (!sign(s, '+'))
        return false;
    if (!digits(s, 2, &hour) || !sign(s, ':') || !digits(s, 2, &minute) || hour > 23 || minute > 59)
        return false;
    *ret_s = factor * (hour * 3600 + minute * 60);
    return true;
}

int gs_kube_stamp_parse(struct gs_str text, int64_t *ret_us)
{
    struct gs_str s = text;
    int64_t year, month, day, hour, minute, second, us = 0, east_s = 0;

    if (!digits(&s, 4, &year) || !sign(&s, '-') || !digits(&s, 2, &month) || !sign(&s, '-') ||
        !digits(&s, 2, &day) || !(sign(&s, 'T') || sign(&s, 't')) || !digits(&s, 2, &hour) ||
        !sign(&s, ':') || !digits(&s, 2, &minute) || !sign(&s, ':') || !digits(&s, 2, &second))
        return -EINVAL;
    if (!fraction(&s, &us) || !offset(&s, &east_s) || s.n > 0)
        return -EINVAL;
    if (year < 1 || month < 1 || month > 12 || day < 1 || day > days_in_month(year, month) ||
        hour > 23 || minute > 59 || second > 60)
        return -EINVAL;
    *ret_us = (days_of(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - east_s) *
                  US_PER_S +
              us;
    return 0;
}

/* Decimal with leading zeros and a character behind. */
static char *number(char *at, int64_t value, int width, char behind)
{
    for (int i = width - 1; i >= 0; i--, value /= 10)
        at[i] = (char)('0' + value % 10);
    at[width] = behind;
    return at + width + 1;
}

const char *gs_kube_stamp_text(int64_t us, bool is_micro, char buf[GS_KUBE_STAMP_TEXT])
{
    const int64_t first = days_of(1, 1, 1) * 86400, last = days_of(10000, 1, 1) * 86400 - 1;
    int64_t s = us / US_PER_S, part = us % US_PER_S, days, of_day;
    int year, month, day;
    char *at = buf;

    if (part < 0) {
        part += US_PER_S;
        s--;
    }
    if (s < first)
        s = first;
    if (s > last)
        s = last;
    days = s / 86400;
    of_day = s % 86400;
    if (of_day < 0) {
        of_day += 86400;
        days--;
    }
    date_of(days, &year, &month, &day);
    at = number(at, year, 4, '-');
    at = number(at, month, 2, '-');
    at = number(at, day, 2, 'T');
    at = number(at, of_day / 3600, 2, ':');
    at = number(at, of_day / 60 % 60, 2, ':');
    at = number(at, of_day % 60, 2, is_micro ? '.' : 'Z');
    if (is_micro)
        at = number(at, part, 6, 'Z');
    *at = '\0';
    return buf;
}
