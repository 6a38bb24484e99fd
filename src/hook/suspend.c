#include "hook/suspend.h"

bool gs_suspend_is_on(void)
{
    return false;
}
