#pragma once
#include <stddef.h>
#include <stdint.h>

struct cwebclient_text {
    const uint8_t *bytes;
    size_t count;
};

// `web/stalecast.js`, as it lies there.
struct cwebclient_text cwebclient_module(void);
