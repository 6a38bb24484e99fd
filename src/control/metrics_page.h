#pragma once
/* A page for Prometheus: the scheduler's own series, and HAMi's on cards, pods and quotas, of which
 * there are as many as there are cards and pods (of MIG instances at most 16 a card). A large
 * cluster has several 100,000: a page is written in steps, so that a filter never waits for one.
 *
 * Threads  the loop's. */

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "control/metrics.h"

/** A page under construction; zeroed but for `from` at first. */
struct gs_metrics_page {
    struct gs_metrics_from from;
    struct gs_buf text;
    unsigned stage;   /**< own */
    size_t pos;       /**< of the walk over nodes or namespaces */
    struct gs_buf at; /**< name of the last node: a walk in steps passes none twice */
};

/** Write some more: some 1,000 lines. True: the page is complete, or memory was short (then
 *  gs_buf_check(&page->text) says so). */
bool gs_metrics_page_step(struct gs_metrics_page *page);
void gs_metrics_page_fini(struct gs_metrics_page *page);
