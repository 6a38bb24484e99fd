#pragma once
/* The few NVML functions the node side calls, found by dlopen: the command line has to start on a
 * machine without the driver. */

#include "core/cleanup.h"
#include "vendors/nvidia/abi/nvml_types.h"

struct gs_err;

/** Functions a driver must have. */
#define GS_NVML_NEEDED(F)                                                                          \
    F(nvmlInit_v2, (void))                                                                         \
    F(nvmlShutdown, (void))                                                                        \
    F(nvmlDeviceGetCount_v2, (unsigned int *))                                                     \
    F(nvmlDeviceGetHandleByIndex_v2, (unsigned int, nvmlDevice_t *))                               \
    F(nvmlDeviceGetUUID, (nvmlDevice_t, char *, unsigned int))                                     \
    F(nvmlDeviceGetName, (nvmlDevice_t, char *, unsigned int))                                     \
    F(nvmlDeviceGetMemoryInfo, (nvmlDevice_t, nvmlMemory_t *))
/** Functions that some drivers lack; NULL there. */
#define GS_NVML_WANTED(F)                                                                          \
    F(nvmlDeviceGetUtilizationRates, (nvmlDevice_t, nvmlUtilization_t *))                          \
    F(nvmlDeviceGetComputeRunningProcesses_v3,                                                     \
      (nvmlDevice_t, unsigned int *, nvmlProcessInfo_t *))                                         \
    F(nvmlDeviceGetComputeRunningProcesses_v2,                                                     \
      (nvmlDevice_t, unsigned int *, nvmlProcessInfo_t *))                                         \
    F(nvmlDeviceGetGraphicsRunningProcesses_v3,                                                    \
      (nvmlDevice_t, unsigned int *, nvmlProcessInfo_t *))                                         \
    F(nvmlDeviceGetGraphicsRunningProcesses_v2,                                                    \
      (nvmlDevice_t, unsigned int *, nvmlProcessInfo_t *))                                         \
    F(nvmlDeviceGetProcessUtilization,                                                             \
      (nvmlDevice_t, nvmlProcessUtilizationSample_t *, unsigned int *, unsigned long long))        \
    GS_NVML_WANTED_INVENTORY(F)                                                                    \
    GS_NVML_WANTED_HEALTH(F)

/** Likewise: what cards are, where they sit and how they are split. */
#define GS_NVML_WANTED_INVENTORY(F)                                                                \
    F(nvmlSystemGetDriverVersion, (char *, unsigned int))                                          \
    F(nvmlSystemGetCudaDriverVersion_v2, (int *))                                                  \
    F(nvmlDeviceGetMinorNumber, (nvmlDevice_t, unsigned int *))                                    \
    F(nvmlDeviceGetPciInfo_v3, (nvmlDevice_t, nvmlPciInfo_t *))                                    \
    F(nvmlDeviceGetMigMode, (nvmlDevice_t, unsigned int *, unsigned int *))                        \
    F(nvmlDeviceGetMaxMigDeviceCount, (nvmlDevice_t, unsigned int *))                              \
    F(nvmlDeviceGetMigDeviceHandleByIndex, (nvmlDevice_t, unsigned int, nvmlDevice_t *))           \
    F(nvmlDeviceGetAttributes_v2, (nvmlDevice_t, nvmlDeviceAttributes_t *))                        \
    F(nvmlDeviceGetGpuInstanceId, (nvmlDevice_t, unsigned int *))                                  \
    F(nvmlDeviceGetComputeInstanceId, (nvmlDevice_t, unsigned int *))                              \
    F(nvmlDeviceGetTopologyCommonAncestor, (nvmlDevice_t, nvmlDevice_t, nvmlGpuTopologyLevel_t *)) \
    F(nvmlDeviceOnSameBoard, (nvmlDevice_t, nvmlDevice_t, int *))                                  \
    F(nvmlDeviceGetNvLinkState, (nvmlDevice_t, unsigned int, nvmlEnableState_t *))                 \
    F(nvmlDeviceGetNvLinkRemotePciInfo_v2, (nvmlDevice_t, unsigned int, nvmlPciInfo_t *))          \
    F(nvmlDeviceGetNvLinkRemoteDeviceType,                                                         \
      (nvmlDevice_t, unsigned int, nvmlIntNvLinkDeviceType_t *))

/** Likewise: how cards are. */
#define GS_NVML_WANTED_HEALTH(F)                                                                   \
    F(nvmlDeviceGetHandleByUUID, (const char *, nvmlDevice_t *))                                   \
    F(nvmlDeviceGetFieldValues, (nvmlDevice_t, int, nvmlFieldValue_t *))                           \
    F(nvmlDeviceGetSupportedEventTypes, (nvmlDevice_t, unsigned long long *))                      \
    F(nvmlDeviceRegisterEvents, (nvmlDevice_t, unsigned long long, nvmlEventSet_t))                \
    F(nvmlEventSetCreate, (nvmlEventSet_t *))                                                      \
    F(nvmlEventSetFree, (nvmlEventSet_t))                                                          \
    F(nvmlEventSetWait_v2, (nvmlEventSet_t, nvmlEventData_t *, unsigned int))

struct gs_nvml {
    void *handle;
#define GS_NVML_MEMBER(name, params) nvmlReturn_t(*name) params;
    GS_NVML_NEEDED(GS_NVML_MEMBER)
    GS_NVML_WANTED(GS_NVML_MEMBER)
#undef GS_NVML_MEMBER
    const char *(*nvmlErrorString)(nvmlReturn_t);
};

/** Load and initialise. Returns 0; -ENODEV no library; -ELIBBAD lacks a function; -EIO NVML
 *  refused.
 *  Owner  caller; gs_nvml_close(), which accepts a zeroed object. */
GS_WUR int gs_nvml_open(struct gs_nvml *ret_nvml, struct gs_err *err);
void gs_nvml_close(struct gs_nvml *nvml);

/** Processes on a card (a heap array for free()); graphics where @graphics. 0 and an empty list
 * where the driver cannot say. */
GS_WUR int gs_nvml_processes(const struct gs_nvml *nvml, nvmlDevice_t device, int graphics,
                             nvmlProcessInfo_t **ret_list, unsigned int *ret_n);
/** Text of an error code. */
const char *gs_nvml_text(const struct gs_nvml *nvml, nvmlReturn_t result);
