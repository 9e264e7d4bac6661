#pragma once
#include <stddef.h>
#include <stdint.h>

// One file of the console, as it lies in `web`.
struct cconsole_file {
    const char *name;
    const uint8_t *bytes;
    size_t count;
};

// The file at `index`; name is NULL behind the last.
struct cconsole_file cconsole_file_at(size_t index);
