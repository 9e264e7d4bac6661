#include "CZlib.h"

int czlib_inflate_gzip_init(z_streamp stream) { return inflateInit2(stream, 15 + 16); }

size_t czlib_gzip(const uint8_t *bytes, size_t count, uint8_t *room, size_t capacity) {
    z_stream stream = {.next_in = (Bytef *)bytes, .avail_in = (uInt)count, .next_out = room, .avail_out = (uInt)capacity};
    if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) != Z_OK) return 0;
    int end = deflate(&stream, Z_FINISH);
    deflateEnd(&stream);
    return end == Z_STREAM_END ? stream.total_out : 0;
}
