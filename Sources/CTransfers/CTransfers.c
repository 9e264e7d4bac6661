#include "CTransfers.h"

#if defined(__linux__)
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// libcurl's interface as far as it is used here. Numbers and layouts are part of its ABI, which never changed since
// libcurl.so.4 of 2006; see curl/curl.h and curl/multi.h.
enum {
  opt_writedata = 10001, opt_url = 10002, opt_errorbuffer = 10010, opt_postfields = 10015, opt_httpheader = 10023,
  opt_headerdata = 10029, opt_customrequest = 10036, opt_copypostfields = 10165, opt_postfieldsize = 30120,
  opt_forbid_reuse = 75, opt_http_version = 84, opt_nosignal = 99, opt_private = 10103, opt_protocols = 181, opt_tcp_keepalive = 213,
  opt_suppress_connect_headers = 265, opt_http09_allowed = 285, opt_writefunction = 20011, opt_headerfunction = 20079,
  opt_proxy = 10004, opt_cainfo = 10065, opt_capath = 10097, info_private = 0x100000 + 21, protocol_http = 1, protocol_https = 2, version_1_1 = 2,
  error_size = 256
};
struct message { int kind; void *easy; union { void *whatever; int result; } data; };
struct waitfd { int fd; short events, revents; };

static struct {
  int (*global_init)(long);
  void *(*easy_init)(void);
  int (*easy_setopt)(void *, int, ...);
  int (*easy_getinfo)(void *, int, ...);
  int (*easy_pause)(void *, int);
  void (*easy_cleanup)(void *);
  const char *(*easy_strerror)(int);
  void *(*slist_append)(void *, const char *);
  void (*slist_free_all)(void *);
  void *(*multi_init)(void);
  int (*multi_add_handle)(void *, void *);
  int (*multi_remove_handle)(void *, void *);
  int (*multi_perform)(void *, int *);
  int (*multi_poll)(void *, struct waitfd *, unsigned, int, int *);
  struct message *(*multi_info_read)(void *, int *);
} curl;

struct transfer {
  void *easy, *headers, *context;
  stalecast_piece on_head, on_body;
  char error[error_size];
};

// Threads within libcurl, and whether the process has begun to exit.
static atomic_int inside;
static atomic_bool is_exiting;

// While the process exits, OpenSSL frees what libcurl's calls work with: a call at that time ends in SIGSEGV. Runs
// before OpenSSL's clean-up. Blocks new calls and waits up to two seconds for running ones. A call that waits for a
// name server may take longer; it uses no TLS meanwhile. Registered more than once; only the first run waits.
static void keep_out(void) {
  const struct timespec nap = {0, 1000000};
  struct timespec began, now;
  if (atomic_exchange(&is_exiting, true)) return;
  clock_gettime(CLOCK_MONOTONIC, &began);
  do {
    if (!inside) return;
    nanosleep(&nap, NULL);
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (now.tv_sec - began.tv_sec < 2);
}

static void enter(void) {
  inside++;
  if (!is_exiting) return;
  inside--;
  for (;;) pause();
}

static void leave(void) { inside--; }

bool stalecast_transfers_guard_exit(void) { return atexit(keep_out) == 0; }

static bool load(void) {
  void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
  if (!library) return false;
  struct { const char *name; void **place; } symbols[] = {
    {"curl_global_init", (void **)&curl.global_init}, {"curl_easy_init", (void **)&curl.easy_init},
    {"curl_easy_setopt", (void **)&curl.easy_setopt}, {"curl_easy_getinfo", (void **)&curl.easy_getinfo},
    {"curl_easy_pause", (void **)&curl.easy_pause}, {"curl_easy_cleanup", (void **)&curl.easy_cleanup},
    {"curl_easy_strerror", (void **)&curl.easy_strerror}, {"curl_slist_append", (void **)&curl.slist_append},
    {"curl_slist_free_all", (void **)&curl.slist_free_all}, {"curl_multi_init", (void **)&curl.multi_init},
    {"curl_multi_add_handle", (void **)&curl.multi_add_handle},
    {"curl_multi_remove_handle", (void **)&curl.multi_remove_handle},
    {"curl_multi_perform", (void **)&curl.multi_perform}, {"curl_multi_poll", (void **)&curl.multi_poll},
    {"curl_multi_info_read", (void **)&curl.multi_info_read},
  };
  for (size_t index = 0; index < sizeof symbols / sizeof *symbols; index++) {
    *symbols[index].place = dlsym(library, symbols[index].name);
    if (!*symbols[index].place) return false;
  }
  enter();
  // The last one to register is the first one to run. OpenSSL registers with the first option that is asked for; this
  // one, OPENSSL_INIT_ATFORK, does nothing else. curl_global_init's take milliseconds, which an exit may fall into.
  int (*initialise)(uint64_t, const void *) = (int (*)(uint64_t, const void *))dlsym(library, "OPENSSL_init_crypto");
  if (initialise) initialise(0x20000, NULL);
  bool is_ready = stalecast_transfers_guard_exit() && curl.global_init(3) == 0;
  leave();
  return is_ready;
}

void *stalecast_transfers_new(void) {
  if (!load()) return NULL;
  enter();
  void *transfers = curl.multi_init();
  leave();
  return transfers;
}

static size_t took_head(char *bytes, size_t size, size_t count, void *transfer) {
  struct transfer *self = transfer;
  return self->on_head(self->context, (uint8_t *)bytes, size * count) ? size * count : 0;
}

static size_t took_body(char *bytes, size_t size, size_t count, void *transfer) {
  struct transfer *self = transfer;
  return self->on_body(self->context, (uint8_t *)bytes, size * count) ? size * count : 0;
}

// To be called between enter() and leave().
static void dispose(struct transfer *self) {
  if (self->easy) curl.easy_cleanup(self->easy);
  curl.slist_free_all(self->headers);
  free(self);
}

void *stalecast_transfer_begin(void *transfers, const char *method, const char *url, const char *const *headers,
                               const uint8_t *body, size_t length, const char *authority_file, void *context,
                               stalecast_piece on_head, stalecast_piece on_body) {
  struct transfer *self = calloc(1, sizeof *self);
  if (!self) return NULL;
  self->context = context;
  self->on_head = on_head;
  self->on_body = on_body;
  enter();
  void *easy = self->easy = curl.easy_init();
  for (; *headers; headers++) {
    void *longer = curl.slist_append(self->headers, *headers);
    if (longer) self->headers = longer;
  }
  bool fails = !easy || curl.easy_setopt(easy, opt_url, url);
  if (!fails && body) {
    fails = curl.easy_setopt(easy, opt_postfieldsize, (long long)length) ||
            curl.easy_setopt(easy, opt_copypostfields, body);
  }
  // The system's are in a folder, which goes on counting beside the file.
  if (!fails && authority_file) {
    fails = curl.easy_setopt(easy, opt_cainfo, authority_file) || curl.easy_setopt(easy, opt_capath, NULL);
  }
  // An option that an old libcurl does not know is no reason to fail, but for those that keep it to http.
  if (!fails) {
    curl.easy_setopt(easy, opt_customrequest, method);
    curl.easy_setopt(easy, opt_httpheader, self->headers);
    curl.easy_setopt(easy, opt_http_version, (long)version_1_1);
    curl.easy_setopt(easy, opt_nosignal, 1L);
    // Each request says `Connection: close`, which libcurl does not look for among one's own fields (RFC 9112, 9.6).
    curl.easy_setopt(easy, opt_forbid_reuse, 1L);
    curl.easy_setopt(easy, opt_tcp_keepalive, 1L);
    curl.easy_setopt(easy, opt_suppress_connect_headers, 1L);
    curl.easy_setopt(easy, opt_http09_allowed, 0L);
    curl.easy_setopt(easy, opt_errorbuffer, self->error);
    curl.easy_setopt(easy, opt_private, self);
    curl.easy_setopt(easy, opt_writefunction, took_body);
    curl.easy_setopt(easy, opt_writedata, self);
    curl.easy_setopt(easy, opt_headerfunction, took_head);
    curl.easy_setopt(easy, opt_headerdata, self);
    // Plain http goes straight, as to a server on the same machine; https takes the environment's proxies.
    if (strncmp(url, "https:", 6) != 0) curl.easy_setopt(easy, opt_proxy, "");
    fails = curl.easy_setopt(easy, opt_protocols, (long)(protocol_http | protocol_https)) ||
            curl.multi_add_handle(transfers, easy);
  }
  if (fails) dispose(self);
  leave();
  return fails ? NULL : self;
}

void stalecast_transfer_end(void *transfers, void *transfer) {
  struct transfer *self = transfer;
  enter();
  curl.multi_remove_handle(transfers, self->easy);
  dispose(self);
  leave();
}

void stalecast_transfer_pause(void *transfer, bool pauses) {
  enter();
  curl.easy_pause(((struct transfer *)transfer)->easy, pauses ? 1 : 0);
  leave();
}

void stalecast_transfers_perform(void *transfers) {
  int running;
  enter();
  curl.multi_perform(transfers, &running);
  leave();
}

void *stalecast_transfers_next(void *transfers, const char **problem) {
  int left;
  for (struct message *message; (message = curl.multi_info_read(transfers, &left));) {
    struct transfer *self = NULL;
    if (message->kind != 1 || curl.easy_getinfo(message->easy, info_private, &self) || !self) continue;
    int result = message->data.result;
    *problem = result == 0 ? NULL : self->error[0] ? self->error : curl.easy_strerror(result);
    return self->context;
  }
  return NULL;
}

// Not counted as within libcurl: it waits, and touches no TLS.
void stalecast_transfers_wait(void *transfers, int wake, int milliseconds) {
  struct waitfd extra = {wake, 1, 0};
  int ready;
  curl.multi_poll(transfers, &extra, wake < 0 ? 0 : 1, milliseconds, &ready);
}

#else
bool stalecast_transfers_guard_exit(void) { return true; }
void *stalecast_transfers_new(void) { return NULL; }
void *stalecast_transfer_begin(void *transfers, const char *method, const char *url, const char *const *headers,
                               const uint8_t *body, size_t length, const char *authority_file, void *context,
                               stalecast_piece on_head, stalecast_piece on_body) { return NULL; }
void stalecast_transfer_end(void *transfers, void *transfer) {}
void stalecast_transfer_pause(void *transfer, bool pauses) {}
void stalecast_transfers_perform(void *transfers) {}
void *stalecast_transfers_next(void *transfers, const char **problem) { return NULL; }
void stalecast_transfers_wait(void *transfers, int wake, int milliseconds) {}
#endif
