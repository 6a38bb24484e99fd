#pragma once
/* Ledgers made word by word in a temporary folder, for tests of their readers. */

#include <stdint.h>

#include "contract/ledger.h"

struct fake_ledger {
    struct gs_ledger *ledger;
    struct gs_ledger_device *device;
    uint64_t bytes;
    uint64_t dev, ino;
};

/** Make a folder; returns a descriptor of it. */
int fake_folder(void);
const char *fake_folder_path(void);
void fake_folder_remove(int dir_fd);

/** A ledger file of that name with the cards "GPU-0".. and no process. */
struct fake_ledger fake_ledger(int dir_fd, const char *name, uint32_t n_devices);
void fake_ledger_drop(struct fake_ledger *f);
/** Put a process into a slot: ourselves, or one that is dead. */
void fake_process(struct fake_ledger *f, uint32_t slot, int alive);
/** Work outstanding of a slot's process on device 0, in the bin of that time. */
void fake_bin(struct fake_ledger *f, uint32_t slot, uint64_t at_ns, uint64_t ns);
