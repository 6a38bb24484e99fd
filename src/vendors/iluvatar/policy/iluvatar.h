#pragma once

struct gs_policy_section;

extern const struct gs_policy_section gs_iluvatar_section;
