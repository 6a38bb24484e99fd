/* What a card is: identity, and values that never change or follow from how busy it is. */
#include <stdio.h>
#include <string.h>

#include "vendors/nvidia/abi/cuda_types.h"
#include "vendors/nvidia/sim/device.h"
#include "vendors/nvidia/sim/nvml.h"

/* Power and heat follow the load: idle 50 W and 32 C, busy 400 W and 70 C. Milliwatts, degrees. */
static unsigned int power_mw(uint32_t card)
{
    return 50000 + 3500 * gs_clock_util_pct(gs_state_clock(card));
}

static unsigned int heat(uint32_t card)
{
    return 32 + gs_clock_util_pct(gs_state_clock(card)) * 38 / 100;
}

static unsigned int clock_mhz(uint32_t card, unsigned int type)
{
    int khz =
        gs_device_attribute(card, type == NVML_CLOCK_MEM ? CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE
                                                         : CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    return (unsigned int)khz / 1000;
}

#define GS_NVML_VALUE(function, type, value)                                                       \
    nvmlReturn_t function(nvmlDevice_t device, type *ret)                                          \
    {                                                                                              \
        GS_NVML_ENTER_CARD(card, device);                                                          \
        (void)card;                                                                                \
        if (!ret)                                                                                  \
            return NVML_ERROR_INVALID_ARGUMENT;                                                    \
        *ret = value;                                                                              \
        return NVML_SUCCESS;                                                                       \
    }
#include "vendors/nvidia/sim/nvml_values.def"
#undef GS_NVML_VALUE

nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char *version, unsigned int length)
{
    GS_NVML_ENTER_CARD(card, device);
    (void)card;
    return gs_nvml_text(version, length, "92.00.45.00.06");
}

nvmlReturn_t nvmlDeviceGetInforomImageVersion(nvmlDevice_t device, char *version,
                                              unsigned int length)
{
    GS_NVML_ENTER_CARD(card, device);
    (void)card;
    return gs_nvml_text(version, length, "G500.0200.00.05");
}

nvmlReturn_t nvmlDeviceGetBoardPartNumber(nvmlDevice_t device, char *partNumber,
                                          unsigned int length)
{
    GS_NVML_ENTER_CARD(card, device);
    (void)card;
    return gs_nvml_text(partNumber, length, "900-21001-0020-100");
}

nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned int length)
{
    GS_NVML_ENTER_CARD(card, device);
    char text[32];
    (void)snprintf(text, sizeof(text), "16000%08u", card + 1);
    return gs_nvml_text(serial, length, text);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    GS_NVML_ENTER_CARD(card, device);
    if (!pci)
        return NVML_ERROR_INVALID_ARGUMENT;
    *pci = (nvmlPciInfo_t){.bus = gs_device_bus(card)};
    pci->pciDeviceId =
        (unsigned int)gs_device_attribute(card, CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID);
    pci->pciSubSystemId =
        (unsigned int)gs_device_attribute(card, CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID);
    (void)snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "0000:%02X:00.0", pci->bus & 0xff);
    (void)snprintf(pci->busId, sizeof(pci->busId), "00000000:%02X:00.0", pci->bus & 0xff);
    return NVML_SUCCESS;
}

/* The two older forms are shorter: write no more than they hold. */
nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_v2_t *pci)
{
    GS_SIM_ENTRY;
    nvmlPciInfo_t full;
    nvmlReturn_t r = pci ? nvmlDeviceGetPciInfo_v3(device, &full) : NVML_ERROR_INVALID_ARGUMENT;
    if (r)
        return r;
    *pci = (nvmlPciInfo_v2_t){.domain = full.domain,
                              .bus = full.bus,
                              .device = full.device,
                              .pciDeviceId = full.pciDeviceId,
                              .pciSubSystemId = full.pciSubSystemId};
    memcpy(pci->busId, full.busIdLegacy, sizeof(pci->busId));
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_v1_t *pci)
{
    GS_SIM_ENTRY;
    nvmlPciInfo_t full;
    nvmlReturn_t r = pci ? nvmlDeviceGetPciInfo_v3(device, &full) : NVML_ERROR_INVALID_ARGUMENT;
    if (r)
        return r;
    *pci = (nvmlPciInfo_v1_t){.domain = full.domain,
                              .bus = full.bus,
                              .device = full.device,
                              .pciDeviceId = full.pciDeviceId};
    memcpy(pci->busId, full.busIdLegacy, sizeof(pci->busId));
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetFanSpeed(nvmlDevice_t device, unsigned int *speed)
{
    GS_NVML_ENTER_CARD(card, device);
    (void)card;
    (void)speed;
    return NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned int fan, unsigned int *speed)
{
    GS_NVML_ENTER_CARD(card, device);
    (void)card;
    (void)fan;
    (void)speed;
    return NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetDriverModel(nvmlDevice_t device, nvmlDriverModel_t *current,
                                      nvmlDriverModel_t *pending)
{
    GS_NVML_ENTER_CARD(card, device);
    (void)card;
    (void)current;
    (void)pending;
    return NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetDriverModel_v2(nvmlDevice_t device, nvmlDriverModel_t *current,
                                         nvmlDriverModel_t *pending)
{
    GS_NVML_ENTER_CARD(card, device);
    (void)card;
    (void)current;
    (void)pending;
    return NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    GS_NVML_ENTER_CARD(card, device);
    if (!major || !minor)
        return NVML_ERROR_INVALID_ARGUMENT;
    *major = gs_device_attribute(card, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    *minor = gs_device_attribute(card, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensorType,
                                      unsigned int *temp)
{
    GS_NVML_ENTER_CARD(card, device);
    if (!temp || sensorType != NVML_TEMPERATURE_GPU)
        return NVML_ERROR_INVALID_ARGUMENT;
    *temp = heat(card);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature)
{
    GS_NVML_ENTER_CARD(card, device);
    if (!temperature || temperature->sensorType != NVML_TEMPERATURE_GPU)
        return NVML_ERROR_INVALID_ARGUMENT;
    temperature->temperature = (int)heat(card);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device,
                                               nvmlTemperatureThresholds_t thresholdType,
                                               unsigned int *temp)
{
    GS_NVML_ENTER_CARD(card, device);
    (void)card;
    if (!temp)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (thresholdType == NVML_TEMPERATURE_THRESHOLD_SHUTDOWN)
        *temp = 92;
    else if (thresholdType == NVML_TEMPERATURE_THRESHOLD_SLOWDOWN)
        *temp = 89;
    else
        return NVML_ERROR_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock)
{
    GS_NVML_ENTER_CARD(card, device);
    if (!clock || (unsigned int)type >= NVML_CLOCK_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    *clock = clock_mhz(card, type);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type,
                                       unsigned int *clock)
{
    GS_SIM_ENTRY;
    return nvmlDeviceGetClockInfo(device, type, clock);
}

nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t device, nvmlClockType_t clockType,
                                            unsigned int *clockMHz)
{
    GS_SIM_ENTRY;
    return nvmlDeviceGetClockInfo(device, clockType, clockMHz);
}

nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, nvmlClockType_t clockType,
                                nvmlClockId_t clockId, unsigned int *clockMHz)
{
    GS_SIM_ENTRY;
    (void)clockId;
    return nvmlDeviceGetClockInfo(device, clockType, clockMHz);
}

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *current,
                                  nvmlEnableState_t *pending)
{
    GS_NVML_ENTER_CARD(card, device);
    (void)card;
    if (!current || !pending)
        return NVML_ERROR_INVALID_ARGUMENT;
    *current = *pending = NVML_FEATURE_ENABLED;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t errorType,
                                         nvmlEccCounterType_t counterType,
                                         unsigned long long *eccCounts)
{
    GS_NVML_ENTER_CARD(card, device);
    (void)card;
    (void)errorType;
    (void)counterType;
    if (!eccCounts)
        return NVML_ERROR_INVALID_ARGUMENT;
    *eccCounts = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrRows,
                                       unsigned int *uncRows, unsigned int *isPending,
                                       unsigned int *failureOccurred)
{
    GS_NVML_ENTER_CARD(card, device);
    (void)card;
    if (!corrRows || !uncRows || !isPending || !failureOccurred)
        return NVML_ERROR_INVALID_ARGUMENT;
    *corrRows = *uncRows = *isPending = *failureOccurred = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device,
                                                          unsigned int *minLimit,
                                                          unsigned int *maxLimit)
{
    GS_NVML_ENTER_CARD(card, device);
    (void)card;
    if (!minLimit || !maxLimit)
        return NVML_ERROR_INVALID_ARGUMENT;
    *minLimit = 100000;
    *maxLimit = 400000;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *energy)
{
    GS_NVML_ENTER_CARD(card, device);
    if (!energy)
        return NVML_ERROR_INVALID_ARGUMENT;
    struct gs_clock *c = gs_state_clock(card);
    (void)gs_clock_advance(c);
    /* Millijoules: 50 W always, 350 W more while busy. */
    *energy = gs_clock_now() / 20000 + c->busy_ns / 1000 * 350 / 1000;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, nvmlPcieUtilCounter_t counter,
                                         unsigned int *value)
{
    GS_NVML_ENTER_CARD(card, device);
    (void)card;
    if (!value || (unsigned int)counter >= NVML_PCIE_UTIL_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    *value = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceValidateInforom(nvmlDevice_t device)
{
    GS_NVML_ENTER_CARD(card, device);
    (void)card;
    return NVML_SUCCESS;
}

static nvmlReturn_t fill_set(unsigned int n, unsigned long *set)
{
    if (!set || !n)
        return NVML_ERROR_INVALID_ARGUMENT;
    memset(set, 0, n * sizeof(*set));
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int cpuSetSize,
                                      unsigned long *cpuSet)
{
    GS_NVML_ENTER_CARD(card, device);
    (void)card;
    nvmlReturn_t r = fill_set(cpuSetSize, cpuSet);
    if (!r)
        cpuSet[0] = ~0ul;
    return r;
}

nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int nodeSetSize,
                                         unsigned long *nodeSet, nvmlAffinityScope_t scope)
{
    GS_NVML_ENTER_CARD(card, device);
    (void)card;
    (void)scope;
    nvmlReturn_t r = fill_set(nodeSetSize, nodeSet);
    if (!r)
        nodeSet[0] = 1;
    return r;
}

/* Fields of nvml.h (NVML_FI_DEV_*) that have an answer here. */
static nvmlReturn_t field(uint32_t card, nvmlFieldValue_t *v)
{
    v->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
    switch (v->fieldId) {
    case 1: /* ECC_CURRENT */
    case 2: /* ECC_PENDING */
        v->value.uiVal = 1;
        return NVML_SUCCESS;
    case 82: /* MEMORY_TEMP */
        v->value.uiVal = heat(card);
        return NVML_SUCCESS;
    case 83: /* TOTAL_ENERGY_CONSUMPTION */
        v->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
        return nvmlDeviceGetTotalEnergyConsumption(gs_nvml_handle(card), &v->value.ullVal);
    case 230: /* GET_GPU_RECOVERY_ACTION */
        v->value.uiVal = __atomic_load_n(&gs_sim_state->seat[card].recovery, __ATOMIC_RELAXED);
        return NVML_SUCCESS;
    case 185: /* POWER_AVERAGE */
    case 186: /* POWER_INSTANT */
        v->value.uiVal = power_mw(card);
        return NVML_SUCCESS;
    default:
        return NVML_ERROR_NOT_SUPPORTED;
    }
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int valuesCount,
                                      nvmlFieldValue_t *values)
{
    GS_NVML_ENTER_CARD(card, device);
    if (!values || valuesCount < 1)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; i < valuesCount; i++) {
        values[i].timestamp = (long long)(gs_clock_now() / 1000);
        values[i].latencyUsec = 0;
        values[i].nvmlReturn = field(card, &values[i]);
    }
    return NVML_SUCCESS;
}
