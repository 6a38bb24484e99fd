#pragma once
/* What an exec plugin is told. Inside the room only. */

#include "base/err.h"
#include "core/cleanup.h"

struct gs_buf;
struct gs_kube_config;

/** Append "KUBERNETES_EXEC_INFO=" and the ExecCredential that the protocol wants there.
 *  Returns  0; -EILSEQ something was no UTF-8; -ENOMEM; what reading the CA file said.
 *  Source   client.authentication.k8s.io/v1, ExecCredentialSpec and Cluster. */
GS_WUR int gs_kube_exec_info(const struct gs_kube_config *config, struct gs_buf *buf,
                             struct gs_err *err);
