#include "CTLS.h"

#include <string.h>

#include <CNIOBoringSSL.h>

size_t stalecast_traffic_secrets(const void *ssl, uint8_t *reading, uint8_t *writing, size_t room) {
  bssl::Span<const uint8_t> in, out;
  if (!bssl::SSL_get_traffic_secrets(static_cast<const SSL *>(ssl), &in, &out)) {
    ERR_clear_error();
    return 0;
  }
  if (in.size() != out.size() || in.size() > room) return 0;
  memcpy(reading, in.data(), in.size());
  memcpy(writing, out.data(), out.size());
  return in.size();
}
