#pragma once
/* How much a pod's annotations may hold. The API server refuses more at every write but the
 * Binding, which it does not check: a pod filled by it can be written to by nobody, its device
 * plugin included. So room is kept for what is written by us and after us. */

/** Bytes of all keys and values. Source: Kubernetes 1.36,
 *  staging/src/k8s.io/apimachinery/pkg/api/validation/objectmeta.go, TotalAnnotationSizeLimitB. */
#define GS_ANNOTATIONS_MAX 262144u
/** Of these for a pod's grant, before it is known: about sixty cards. Never less than
 *  GS_ANNOTATIONS_MARKS: control/fence relies on it. */
#define GS_ANNOTATIONS_RESERVE 16384u
/** For what has always the same size: phase and times, the signature, gpuslice.io/fence and
 *  gpuslice.io/room-seen. */
#define GS_ANNOTATIONS_MARKS 4096u
