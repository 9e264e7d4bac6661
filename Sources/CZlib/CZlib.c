#include "CZlib.h"

int czlib_inflate_gzip_init(z_streamp stream) { return inflateInit2(stream, 15 + 16); }
