#ifndef CZLIB_H
#define CZLIB_H

#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

/// Prepares `stream` to inflate gzip data and nothing else (RFC 1952, window of 32 KB). Returns Z_OK or a zlib error.
/// A function because zlib's own name for it is a macro, which Swift cannot call.
int czlib_inflate_gzip_init(z_streamp stream);

/// Packs `bytes` as gzip into `room`; returns the size, 0 when it does not fit. The result depends on the content alone.
size_t czlib_gzip(const uint8_t *bytes, size_t count, uint8_t *room, size_t capacity);

#endif
