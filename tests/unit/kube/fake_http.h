#pragma once
/* An HTTP client whose server is the test, in place of net/http_client.c; time is virtual. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "kube/client.h"
#include "net/http_client.h"
#include "net/loop.h"

/** A call the client made and that waits for its answer. */
struct gs_http_call {
    struct gs_http_call *next;
    char method[16], url[1024], body[4096], type[64];
    unsigned timeout_ms, idle_ms;
    gs_http_chunk_fn *on_chunk;
    gs_http_done_fn *done;
    void *user;
};

/** A loop in virtual time and a client on it. */
struct fake {
    struct gs_clock_virtual clock;
    struct gs_loop *loop;
    struct gs_kube_client *client;
};

void fake_new(struct fake *f, const struct gs_kube_client_opt *opt);
void fake_free(struct fake *f);
uint64_t fake_now_ms(const struct fake *f);

/** Let time pass until the client has made a call; the oldest open one. Fails after `within_ms`. */
struct gs_http_call *fake_next(struct fake *f, uint64_t within_ms);
/** Let everything happen that happens by then. */
void fake_run(struct fake *f, uint64_t ms);
/** Calls that wait now. */
size_t fake_open(void);

/** Answer and end. after_s -1: no Retry-After. */
void fake_answer(struct gs_http_call *call, int status, const char *body, int after_s);
/** End without an answer. */
void fake_break(struct gs_http_call *call, int rc);
/** Bytes of a 200 body. False: the client ended the call, which is gone. */
bool fake_chunk(struct gs_http_call *call, const char *bytes);
bool fake_chunk_n(struct gs_http_call *call, const char *bytes, size_t n);
/** The end of a stream. */
void fake_end(struct gs_http_call *call, int rc);
/** Token last given to the client; "" none. */
const char *fake_token(void);
