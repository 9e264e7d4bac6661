// What BoringSSL tells in C++ only.
#ifndef STALECAST_CTLS_H
#define STALECAST_CTLS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Copies the TLS 1.3 traffic secrets that a connection (SSL *) reads and writes with now; each has room for `room` bytes.
// Returns how long each is; 0 when there are none, because the handshake is not over or it speaks another version.
size_t stalecast_traffic_secrets(const void *ssl, uint8_t *reading, uint8_t *writing, size_t room);

#ifdef __cplusplus
}
#endif

#endif
