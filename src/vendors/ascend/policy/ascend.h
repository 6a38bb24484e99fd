#pragma once
/* Ascend NPUs: one policy per chip of the section "vnpus". */

struct gs_policy_section;

extern const struct gs_policy_section gs_ascend_section;
