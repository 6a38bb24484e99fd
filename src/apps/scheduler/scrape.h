#pragma once
/* GET /metrics: a page is written between other work, a step at a time. */

#include "net/http_server.h"

/** @user  the struct gs_daemon. */
int gs_scrape_get(void *user, const struct gs_http_request *req, struct gs_http_reply *reply);
