#pragma once
/* Names that two processes must agree on: environment variables, files, folders. */

/** Folder with the file `quota`. Read first; the variable counts only where this folder is absent.
 */
#define GS_QUOTA_DIR     "/run/gpuslice/quota"
#define GS_QUOTA_FILE    "quota"
#define GS_ENV_QUOTA_DIR "GPUSLICE_QUOTA_DIR"
/** Ledger file; HAMi's name, which its device plugin sets, and which `gpuslice run` sets too. */
#define GS_ENV_LEDGER "CUDA_DEVICE_MEMORY_SHARED_CACHE"
/** Name of the slice, for people and for `gpuslice top`; set by `gpuslice run`. */
#define GS_ENV_SLICE "GPUSLICE_NAME"
/** HAMi's limits, the fallback where there is no quota file; `_<i>` is the container's NVML index.
 */
#define GS_ENV_MEM_LIMIT     "CUDA_DEVICE_MEMORY_LIMIT"
#define GS_ENV_CONTAINER_MEM "HAMI_CONTAINER_MEM"
#define GS_ENV_SM_LIMIT      "CUDA_DEVICE_SM_LIMIT"
/** Debug: a file descriptor number or a path that also receives each log line. */
#define GS_ENV_LOG "GPUSLICE_LOG"
