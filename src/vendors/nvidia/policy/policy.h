#pragma once
/* NVIDIA: the section `nvidia`, its policy, and how both come together. */

#include "model/policy.h"

extern const struct gs_policy_section gs_nvidia_section;
