// libcurl for apps on Linux, found at run time: an app that links the SDK needs neither its headers nor a linker flag,
// and where the system has none Foundation's URLSession does the work. All calls on one thread, none from a callback.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// One line of a head, its line end included, or bytes of a body. False ends the transfer.
typedef bool (*stalecast_piece)(void *context, const uint8_t *bytes, size_t count);

// Lets the process exit at any moment, whatever a transfer does at that time. To be called before the first transfer's
// thread begins. False when the process exits already.
bool stalecast_transfers_guard_exit(void);

// What transfers run in; NULL when there is no libcurl, or none that is new enough (7.66).
void *stalecast_transfers_new(void);

// Begins a request. Strings are copied, `body` too; NULL sends none. authority_file: PEM of those who may vouch for the
// server; NULL, the system's. NULL when it cannot begin.
void *stalecast_transfer_begin(void *transfers, const char *method, const char *url, const char *const *headers,
                               const uint8_t *body, size_t length, const char *authority_file, void *context,
                               stalecast_piece on_head, stalecast_piece on_body);
// Ends it, whether it is over or not; its connection is kept for others only if it is.
void stalecast_transfer_end(void *transfers, void *transfer);
// Bytes may arrive before this returns.
void stalecast_transfer_pause(void *transfer, bool pauses);

// Does what can be done without waiting.
void stalecast_transfers_perform(void *transfers);
// The context of a transfer that is over; NULL when there is none. `problem` is NULL after a whole answer.
void *stalecast_transfers_next(void *transfers, const char **problem);
// Waits until there is something to be done, `wake` is readable, or so many milliseconds are over.
void stalecast_transfers_wait(void *transfers, int wake, int milliseconds);
