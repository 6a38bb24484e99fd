#pragma once
/* Texture and surface objects, and the older references: descriptions only, nothing samples them.
 */

#include "vendors/nvidia/sim/sim.h"
