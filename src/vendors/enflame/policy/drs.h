#pragma once
/* Enflame DRS: a card is cut into hard partitions of the sizes that its node lists. */

struct gs_policy_ops;

extern const struct gs_policy_ops gs_drs_ops;
