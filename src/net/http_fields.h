#pragma once
/* Whether the head of a request says one thing only. Where somebody between the peer and us reads a
 * header otherwise than we do, the two disagree on where a request ends, and what is a body to the
 * one is a request to the other (RFC 9112, 11.2). So what the standard calls an error is one, and
 * of what it leaves to the recipient the strict reading is taken.
 *
 * Refused: names that are no tokens (blanks before the colon among them), lines that are continued
 * on the next one, CR and NUL in values, lengths that differ, a length beside a transfer coding,
 * codings other than one "chunked", any in HTTP/1.0, a second Host.
 * Not seen from here: a line feed alone as the end of a line (allowed for fields, RFC 9112, 2.2).
 */

struct MHD_Connection;

/** @method, @version  as libmicrohttpd gives them to its handler, once the headers are complete.
 *  Returns  NULL: nothing is wrong; else what is, static text. */
const char *gs_http_fields_fault(struct MHD_Connection *mhd, const char *method,
                                 const char *version);
