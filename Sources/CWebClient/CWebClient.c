#include "CWebClient.h"

// As in CConsole.c.
#pragma clang diagnostic ignored "-Wc23-extensions"

static const uint8_t stalecast_js[] = {
#embed "web/stalecast.js"
};

struct cwebclient_text cwebclient_module(void) {
    return (struct cwebclient_text){stalecast_js, sizeof stalecast_js};
}
