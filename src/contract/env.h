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
/** HAMi's compute policy: default | force | disable. `default` is our elastic, `force` fixed,
 * `disable` off; unset is fixed. */
#define GS_ENV_CORE_POLICY "GPU_CORE_UTILIZATION_POLICY"
/** HAMi's priority of the slice: 0 high, 1 low. */
#define GS_ENV_PRIORITY "CUDA_TASK_PRIORITY"
/** `true`: device memory beyond the card is served from managed memory. */
#define GS_ENV_OVERSUBSCRIBE "CUDA_OVERSUBSCRIBE"
/** `1` or `true`: copies and fills are charged to the share of compute, like launches. `0`, `false`
 * and unset: they are not. */
#define GS_ENV_LIMIT_COPIES "GPUSLICE_LIMIT_COPIES"
/** Folder of the boards, one file per card named by its UUID (contract/board.h). The fixed folder
 * is read first; the variable counts only where it is absent. */
#define GS_BOARD_DIR     "/run/gpuslice/board"
#define GS_ENV_BOARD_DIR "GPUSLICE_BOARD_DIR"
/** A file, by an absolute path, to which every wait of a launch is appended, Chrome's trace format.
 */
#define GS_ENV_TRACE "GPUSLICE_TRACE"
/** `off`: SIGUSR2 (suspend) and SIGUSR1 (resume) are left alone even where the program does not use
 * them. */
#define GS_ENV_SIGNALS "GPUSLICE_SIGNALS"
/** `true`: HAMi's device plugin puts no hook into the container; read from the pod. */
#define GS_ENV_NO_CONTROL "CUDA_DISABLE_CONTROL"
