#ifndef CZLIB_H
#define CZLIB_H

#include <zlib.h>

/// Prepares `stream` to inflate gzip data and nothing else (RFC 1952, window of 32 KB). Returns Z_OK or a zlib error.
/// A function because zlib's own name for it is a macro, which Swift cannot call.
int czlib_inflate_gzip_init(z_streamp stream);

#endif
