/* For another C library, into which the glibc driver cannot be loaded: only the start matters. */
#include <stdio.h>

int main(void)
{
    return puts("hello") < 0;
}
