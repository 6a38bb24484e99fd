#include "kube/request.h"

const struct gs_kube_resource gs_kube_pods = {"", "v1", "pods", "Pod", true};
const struct gs_kube_resource gs_kube_nodes = {"", "v1", "nodes", "Node", false};
const struct gs_kube_resource gs_kube_quotas = {"", "v1", "resourcequotas", "ResourceQuota", true};
const struct gs_kube_resource gs_kube_leases = {"coordination.k8s.io", "v1", "leases", "Lease",
                                                true};
const struct gs_kube_resource gs_kube_pdbs = {"policy", "v1", "poddisruptionbudgets",
                                              "PodDisruptionBudget", true};
const struct gs_kube_resource gs_kube_core_events = {"", "v1", "events", "Event", true};
const struct gs_kube_resource gs_kube_namespaces = {"", "v1", "namespaces", "Namespace", false};
const struct gs_kube_resource gs_kube_config_maps = {"", "v1", "configmaps", "ConfigMap", true};
