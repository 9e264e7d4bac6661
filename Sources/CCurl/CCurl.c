#define _GNU_SOURCE
#include "CCurl.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

// Of the OpenSSL that libcurl brings; absent with another TLS library.
static int (*session_reused)(const void *ssl);

// Of a watched descriptor that libcurl has no use for at the moment; no flag of epoll's.
static const uint32_t idle = 1u << 15;

enum { max_head = 16 << 10, slack_after_limit = 64 << 10, kept_memory = 64 << 10 };

// MARK: - Memory

// libcurl asks for about thirty pieces of memory for each request. The C library keeps seven free pieces of each size for a
// thread, which is less than what a turn's requests need together; the rest costs several times as much. So each thread
// keeps pieces here: those that it freed, whichever thread they were made on. At most 35 MB, were every list full.
enum { step = 64, sizes = 32, most_kept = 1024, first_growth = 256 };

// Head of each piece; keeps the alignment.
typedef struct {
  _Alignas(16) size_t room;
} piece;

static __thread struct {
  piece *first;
  int count;
} kept[sizes + 1];
static __thread bool frees_at_end;
static pthread_key_t end_of_thread;

// The place of the next free piece's address is the piece's own memory.
static piece **next_of(piece *piece) { return (void *)(piece + 1); }

static void free_kept(void *unused) {
  (void)unused;
  for (int size = 0; size <= sizes; size++) {
    for (piece *next; kept[size].first; kept[size].first = next) {
      next = *next_of(kept[size].first);
      free(kept[size].first);
    }
    // Full: what other libraries free later at the thread's end is not kept.
    kept[size].count = most_kept;
  }
}

static void *take(size_t bytes) {
  size_t size = bytes ? (bytes + step - 1) / step : 1;
  piece *taken = size <= sizes ? kept[size].first : NULL;
  if (taken) {
    kept[size].first = *next_of(taken);
    kept[size].count--;
    return taken + 1;
  }
  if (bytes > SIZE_MAX / 2) return NULL;
  size_t room = size <= sizes ? size * step : bytes;
  taken = malloc(sizeof *taken + room);
  if (!taken) return NULL;
  taken->room = room;
  return taken + 1;
}

static void give(void *memory) {
  if (!memory) return;
  piece *given = (piece *)memory - 1;
  size_t size = given->room / step;
  if (given->room > sizes * step || kept[size].count >= most_kept) return free(given);
  if (!frees_at_end) frees_at_end = pthread_setspecific(end_of_thread, kept) == 0;
  *next_of(given) = kept[size].first;
  kept[size].first = given;
  kept[size].count++;
}

// Begins with 256 bytes: a piece that grows is likely to grow again, as a request's head does from 32 bytes on, five times.
static void *take_more(void *memory, size_t bytes) {
  if (!memory) return take(bytes < first_growth ? first_growth : bytes);
  size_t room = ((piece *)memory - 1)->room;
  if (bytes <= room) return memory;
  void *moved = take(bytes);
  if (!moved) return NULL;
  memcpy(moved, memory, room);
  give(memory);
  return moved;
}

static void *take_zeroed(size_t count, size_t bytes) {
  if (bytes && count > SIZE_MAX / bytes) return NULL;
  void *memory = take(count * bytes);
  return memory ? memset(memory, 0, count * bytes) : NULL;
}

static char *take_copy(const char *text) {
  size_t bytes = strlen(text) + 1;
  void *memory = take(bytes);
  return memory ? memcpy(memory, text, bytes) : NULL;
}

static pthread_once_t prepared = PTHREAD_ONCE_INIT;
static bool is_prepared;

static void prepare(void) {
  if (pthread_key_create(&end_of_thread, free_kept) != 0) return;
  *(void **)&session_reused = dlsym(RTLD_DEFAULT, "SSL_session_reused");
  is_prepared = curl_global_init_mem(CURL_GLOBAL_ALL, take, give, take_more, take_copy, take_zeroed) == CURLE_OK;
}

bool stalecast_curl_prepare(void) {
  pthread_once(&prepared, prepare);
  return is_prepared;
}

static uint64_t monotonic_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// MARK: - The multi handle

// Room for `fd` in the table of what epoll watches; false when memory is short.
static bool know(stalecast_curl *curl, int fd) {
  if (fd < curl->watched_capacity) return true;
  int capacity = curl->watched_capacity ? curl->watched_capacity : 64;
  while (capacity <= fd) capacity *= 2;
  uint32_t *watched = realloc(curl->watched, (size_t)capacity * sizeof *watched);
  if (watched) curl->watched = watched;
  bool *reached = realloc(curl->reached, (size_t)capacity * sizeof *reached);
  if (reached) curl->reached = reached;
  bool *ours = realloc(curl->ours, (size_t)capacity * sizeof *ours);
  if (ours) curl->ours = ours;
  if (!watched || !reached || !ours) return false;
  size_t added = (size_t)(capacity - curl->watched_capacity);
  memset(watched + curl->watched_capacity, 0, added * sizeof *watched);
  memset(reached + curl->watched_capacity, 0, added * sizeof *reached);
  memset(ours + curl->watched_capacity, 0, added * sizeof *ours);
  curl->watched_capacity = capacity;
  return true;
}

static void unwatch(stalecast_curl *curl, int fd) {
  if (fd >= curl->watched_capacity || !curl->watched[fd]) return;
  curl->watched[fd] = 0;
  epoll_ctl(curl->epoll, EPOLL_CTL_DEL, fd, NULL);
}

// A connection that goes back to the pool stays watched for input: its next request is likely to want the same, and
// each change would cost a system call. Input that comes while it is idle takes it out, see stalecast_curl_socket.
// Descriptors that libcurl opens itself, a lookup's for one, it also closes itself: their numbers may come back at once.
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *context, void *known) {
  (void)easy, (void)known;
  stalecast_curl *curl = context;
  if (!know(curl, fd)) return -1;
  if (what == CURL_POLL_REMOVE) {
    if (curl->watched[fd] & EPOLLOUT || !curl->ours[fd]) unwatch(curl, fd);
    if (curl->watched[fd]) curl->watched[fd] = EPOLLIN | idle;
    return 0;
  }
  struct epoll_event event = {.data = {.u64 = (uint64_t)curl->number << 32 | (uint32_t)fd}};
  if (what & CURL_POLL_IN) event.events |= EPOLLIN;
  if (what & CURL_POLL_OUT) event.events |= EPOLLOUT;
  uint32_t before = curl->watched[fd];
  curl->watched[fd] = event.events;
  if ((before & ~idle) == event.events) return 0;
  return epoll_ctl(curl->epoll, before ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event);
}

static int on_timer(CURLM *multi, long milliseconds, void *context) {
  (void)multi;
  stalecast_curl *curl = context;
  // 0 is at once, and comes with each request: the clock need not be read.
  curl->deadline = milliseconds < 0 ? UINT64_MAX : !milliseconds ? 0 : monotonic_ns() + (uint64_t)milliseconds * 1000000u;
  return 0;
}

// A fixed part for each handle would close connections of the handle with the most hosts while others have room.
long stalecast_curl_kept(const stalecast_curl_budget *budget, int sockets) {
  long left = budget->kept - budget->counts->sockets, handles = budget->handles;
  // Rounded away from zero: the last connections that are left are any handle's.
  long part = left > 0 ? (left + handles - 1) / handles : (left - handles + 1) / handles;
  return sockets + part < 1 ? 1 : sockets + part;
}

static bool open_multi(stalecast_curl *curl) {
  curl->deadline = UINT64_MAX;
  curl->multi = curl_multi_init();
  if (!curl->multi) return false;
  curl_multi_setopt(curl->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
  curl_multi_setopt(curl->multi, CURLMOPT_SOCKETDATA, curl);
  curl_multi_setopt(curl->multi, CURLMOPT_TIMERFUNCTION, on_timer);
  curl_multi_setopt(curl->multi, CURLMOPT_TIMERDATA, curl);
  // Without it the pool is as small as the number of requests under way, and keep-alive ends when it is quiet.
  // stalecast_curl_add sets it anew.
  curl_multi_setopt(curl->multi, CURLMOPT_MAXCONNECTS, stalecast_curl_kept(&curl->budget, curl->sockets));
  // Requests that libcurl holds back for these never time out; the engine counts for itself.
  curl_multi_setopt(curl->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, 0L);
  curl_multi_setopt(curl->multi, CURLMOPT_MAX_HOST_CONNECTIONS, 0L);
  curl_multi_setopt(curl->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
  return true;
}

stalecast_curl *stalecast_curl_new(int epoll, uint32_t number, stalecast_curl_budget budget) {
  // Not in prepare(): a command that only reads a URL ends with its pipe.
  signal(SIGPIPE, SIG_IGN);
  stalecast_curl *curl = calloc(1, sizeof *curl);
  if (!curl) return NULL;
  curl->budget = budget;
  curl->epoll = epoll;
  curl->number = number;
  if (!open_multi(curl)) {
    stalecast_curl_free(curl);
    return NULL;
  }
  return curl;
}

void stalecast_curl_free(stalecast_curl *curl) {
  if (curl->multi) curl_multi_cleanup(curl->multi);
  free(curl->watched);
  free(curl->reached);
  free(curl->ours);
  free(curl);
}

void stalecast_curl_time(stalecast_curl *curl) {
  int running;
  curl->deadline = UINT64_MAX;
  curl->has_news = true;
  curl_multi_socket_action(curl->multi, CURL_SOCKET_TIMEOUT, 0, &running);
}

void stalecast_curl_socket(stalecast_curl *curl, int fd, uint32_t events) {
  int running, mask = 0;
  if (fd < curl->watched_capacity && curl->watched[fd] & idle) {
    unwatch(curl, fd);
    return;
  }
  if (events & (EPOLLIN | EPOLLRDHUP)) mask |= CURL_CSELECT_IN;
  if (events & EPOLLOUT) mask |= CURL_CSELECT_OUT;
  if (events & (EPOLLERR | EPOLLHUP)) mask |= CURL_CSELECT_ERR;
  curl->has_news = true;
  curl_multi_socket_action(curl->multi, fd, mask, &running);
}

bool stalecast_curl_add(stalecast_curl *curl, CURL *easy) {
  curl_multi_setopt(curl->multi, CURLMOPT_MAXCONNECTS, stalecast_curl_kept(&curl->budget, curl->sockets));
  return curl_multi_add_handle(curl->multi, easy) == CURLM_OK;
}

void stalecast_curl_remove(stalecast_curl *curl, CURL *easy) { curl_multi_remove_handle(curl->multi, easy); }

CURL *stalecast_curl_next(stalecast_curl *curl, CURLcode *result) {
  int left;
  for (CURLMsg *message; (message = curl_multi_info_read(curl->multi, &left));) {
    if (message->msg != CURLMSG_DONE) continue;
    *result = message->data.result;
    return message->easy_handle;
  }
  curl->has_news = false;
  return NULL;
}

// MARK: - The guard

static bool ask(stalecast_transfer *transfer, const struct sockaddr *address) {
  if (!transfer->guard) return false;
  if (address->sa_family == AF_INET) {
    const struct sockaddr_in *four = (const struct sockaddr_in *)address;
    return transfer->guard(transfer->context, (const uint8_t *)&four->sin_addr, 4, ntohs(four->sin_port));
  }
  if (address->sa_family == AF_INET6) {
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;
    return transfer->guard(transfer->context, six->sin6_addr.s6_addr, 16, ntohs(six->sin6_port));
  }
  return false;
}

// Before libcurl starts a thread for a lookup that nothing could end: the request fails instead, and comes again with
// its host's addresses, which it brings into libcurl's cache.
static int on_lookup(void *resolver, void *reserved, void *context) {
  (void)resolver, (void)reserved;
  stalecast_transfer *transfer = context;
  transfer->needs_addresses = !transfer->is_literal;
  return transfer->needs_addresses;
}

void stalecast_transfer_forget_peer(stalecast_transfer *transfer) { transfer->allowed_port = -1; }

// Nothing has been sent yet; libcurl tries the host's next address when this one is refused.
static curl_socket_t on_open(void *context, curlsocktype purpose, struct curl_sockaddr *address) {
  stalecast_transfer *transfer = context;
  if (purpose != CURLSOCKTYPE_IPCXN || !ask(transfer, &address->addr)) {
    transfer->blocked = true;
    return CURL_SOCKET_BAD;
  }
  transfer->opened = true;
  int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
  transfer->socket = fd;
  if (fd < 0) return CURL_SOCKET_BAD;
  if (!know(transfer->curl, fd)) {
    close(fd);
    return CURL_SOCKET_BAD;
  }
  transfer->curl->sockets++;
  transfer->curl->budget.counts->sockets++;
  transfer->curl->reached[fd] = false;
  transfer->curl->ours[fd] = true;
  return fd;
}

// The connection outlives the easy handle that opened it, so the context is the multi handle's.
static int on_close(void *context, curl_socket_t fd) {
  stalecast_curl *curl = context;
  curl->sockets--;
  curl->budget.counts->sockets--;
  unwatch(curl, fd);
  struct sockaddr_storage peer;
  socklen_t length = sizeof peer;
  if (fd < curl->watched_capacity) {
    curl->reached[fd] = getpeername(fd, (struct sockaddr *)&peer, &length) == 0;
    curl->ours[fd] = false;
  }
  return close(fd);
}

// Whether a session was resumed can be asked only while the connection is there.
static void count_handshake(stalecast_transfer *transfer) {
  struct curl_tlssessioninfo *session = NULL;
  if (curl_easy_getinfo(transfer->easy, CURLINFO_TLS_SSL_PTR, &session) != CURLE_OK || !session) return;
  if (session->backend != CURLSSLBACKEND_OPENSSL || !session->internals) return;
  transfer->curl->budget.counts->handshakes++;
  if (session_reused && session_reused(session->internals) == 1) transfer->curl->budget.counts->resumed++;
}

// Also for pooled connections, which may have been opened under another policy.
static int on_request(void *context, char *peer, char *own, int peer_port, int own_port) {
  (void)own, (void)own_port;
  stalecast_transfer *transfer = context;
  if (transfer->opened) count_handshake(transfer);
  transfer->connected = true;
  if (transfer->allowed_port == peer_port && strcmp(transfer->allowed, peer) == 0) return CURL_PREREQFUNC_OK;
  uint8_t bytes[16];
  size_t length = inet_pton(AF_INET, peer, bytes) == 1 ? 4 : inet_pton(AF_INET6, peer, bytes) == 1 ? 16 : 0;
  if (!length || !transfer->guard || !transfer->guard(transfer->context, bytes, length, peer_port)) {
    transfer->blocked = true;
    return CURL_PREREQFUNC_ABORT;
  }
  strncpy(transfer->allowed, peer, sizeof transfer->allowed - 1);
  transfer->allowed_port = peer_port;
  return CURL_PREREQFUNC_OK;
}

// libcurl reports its times of a connection only when TLS is established as well.
bool stalecast_transfer_reached_peer(const stalecast_transfer *transfer) {
  int fd = transfer->socket;
  return transfer->opened && fd >= 0 && fd < transfer->curl->watched_capacity && transfer->curl->reached[fd];
}

// MARK: - The answer

// Makes room for `more` bytes; false when memory is short.
static bool grow(void **memory, size_t *capacity, size_t needed) {
  if (needed <= *capacity) return true;
  size_t larger = *capacity ? *capacity : 512;
  while (larger < needed) larger *= 2;
  void *moved = realloc(*memory, larger);
  if (!moved) return false;
  *memory = moved;
  *capacity = larger;
  return true;
}

// Of the head's first line, "HTTP/1.1 200 OK"; 0 when it has none.
static int status_of(const stalecast_transfer *transfer) {
  const char *blank = transfer->head_length ? memchr(transfer->head, ' ', transfer->head_length) : NULL;
  if (!blank || transfer->head + transfer->head_length - blank < 4) return 0;
  int status = 0;
  for (int index = 1; index <= 3; index++) {
    if (blank[index] < '0' || blank[index] > '9') return 0;
    status = status * 10 + (blank[index] - '0');
  }
  return status;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *context) {
  stalecast_transfer *transfer = context;
  size_t length = size * count;
  transfer->total += length;
  if (transfer->on_bytes) {
    int status = status_of(transfer);
    if (status / 100 == 2) return transfer->on_bytes(transfer->context, status, (uint8_t *)bytes, length) ? length : 0;
  }
  size_t room = transfer->limit > transfer->kept ? transfer->limit - transfer->kept : 0;
  size_t taken = length < room ? length : room;
  if (taken && !grow((void **)&transfer->body, &transfer->capacity, transfer->kept + taken)) return 0;
  if (taken) memcpy(transfer->body + transfer->kept, bytes, taken);
  transfer->kept += taken;
  if (transfer->total <= transfer->limit) return length;
  if (transfer->fail_when_longer) {
    transfer->too_large = true;
    return 0;
  }
  if (transfer->total <= transfer->limit + slack_after_limit) return length;
  transfer->cut = true;
  return 0;
}

static size_t on_head(char *line, size_t size, size_t count, void *context) {
  stalecast_transfer *transfer = context;
  size_t length = size * count;
  // Of an interim answer and its final one the latter counts.
  if (length > 5 && memcmp(line, "HTTP/", 5) == 0) transfer->head_length = transfer->initials = 0;
  size_t whole = transfer->head_length + length;
  if (whole > max_head) return length;
  if (!grow((void **)&transfer->head, &transfer->head_capacity, whole)) return 0;
  memcpy(transfer->head + transfer->head_length, line, length);
  transfer->head_length = whole;
  transfer->initials |= 1u << (line[0] & 31);
  bool is_end = length <= 2 && (line[0] == '\r' || line[0] == '\n');
  if (is_end && transfer->on_bytes) {
    int status = status_of(transfer);
    if (status / 100 == 2 && !transfer->on_bytes(transfer->context, status, NULL, 0)) return 0;
  }
  return length;
}

const char *stalecast_transfer_header(const stalecast_transfer *transfer, const uint8_t *name, size_t wanted,
                                      size_t *length) {
  if (!wanted || !(transfer->initials >> (name[0] & 31) & 1)) return NULL;
  const char *found = NULL, *end = transfer->head + transfer->head_length;
  for (const char *line = transfer->head; line < end;) {
    const char *stop = memchr(line, '\n', (size_t)(end - line));
    if (!stop) stop = end;
    if ((size_t)(stop - line) > wanted && line[wanted] == ':' && strncasecmp(line, (const char *)name, wanted) == 0) {
      const char *from = line + wanted + 1, *to = stop;
      while (from < to && (*from == ' ' || *from == '\t')) from++;
      while (to > from && (to[-1] == ' ' || to[-1] == '\t' || to[-1] == '\r')) to--;
      found = from;
      *length = (size_t)(to - from);
    }
    line = stop + 1;
  }
  return found;
}

void stalecast_transfer_reset(stalecast_transfer *transfer) {
  if (transfer->capacity > kept_memory) {
    free(transfer->body);
    transfer->body = NULL;
    transfer->capacity = 0;
  }
  transfer->kept = transfer->total = transfer->head_length = transfer->initials = 0;
  transfer->opened = transfer->connected = transfer->blocked = transfer->too_large = transfer->cut = false;
  transfer->fail_when_longer = transfer->needs_addresses = false;
  transfer->socket = -1;
  transfer->on_bytes = NULL;
  transfer->error[0] = 0;
}

// MARK: - Easy handles

CURL *stalecast_easy_new(stalecast_curl *curl, const char *ca_file) {
  CURL *easy = curl_easy_init();
  stalecast_transfer *transfer = calloc(1, sizeof *transfer);
  if (!easy || !transfer) {
    if (easy) curl_easy_cleanup(easy);
    free(transfer);
    return NULL;
  }
  transfer->curl = curl;
  curl->budget.counts->handles++;
  transfer->easy = easy;
  transfer->allowed_port = -1;
  curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  // Without it a request that times out while its name is looked up stops the whole loop until the lookup ends.
  curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(easy, CURLOPT_HTTP09_ALLOWED, 0L);
  // No proxy for any host: libcurl does not read http_proxy and its like either, nor copy certificates' paths for one.
  curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
  curl_easy_setopt(easy, CURLOPT_PROXY_CAPATH, NULL);
  curl_easy_setopt(easy, CURLOPT_PROXY_CAINFO, NULL);
  curl_easy_setopt(easy, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
  // After every transfer libcurl walks through all of its DNS cache, which thousands of hosts make the larger part of
  // a transfer's cost. Only new connections look names up.
  curl_easy_setopt(easy, CURLOPT_DNS_CACHE_TIMEOUT, 0L);
  curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, 55L);
  curl_easy_setopt(easy, CURLOPT_MAXLIFETIME_CONN, 3600L);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 4096L);
  curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, 16384L);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->error);
  curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
  curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
  // With a directory of certificates compiled in, libcurl parses the bundle again for every handshake.
  curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
  if (ca_file) curl_easy_setopt(easy, CURLOPT_CAINFO, ca_file);
  curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, 3600L);
  curl_easy_setopt(easy, CURLOPT_RESOLVER_START_FUNCTION, on_lookup);
  curl_easy_setopt(easy, CURLOPT_RESOLVER_START_DATA, transfer);
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open);
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, transfer);
  curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, on_close);
  curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, curl);
  curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_request);
  curl_easy_setopt(easy, CURLOPT_PREREQDATA, transfer);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_head);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
  return easy;
}

void stalecast_easy_free(CURL *easy) {
  stalecast_transfer *transfer = stalecast_easy_transfer(easy);
  curl_easy_cleanup(easy);
  if (!transfer) return;
  transfer->curl->budget.counts->handles--;
  free(transfer->body);
  free(transfer->head);
  free(transfer->sent);
  free(transfer);
}

stalecast_transfer *stalecast_easy_transfer(CURL *easy) {
  char *transfer = NULL;
  curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
  return (stalecast_transfer *)(void *)transfer;
}

CURLcode stalecast_easy_set_long(CURL *easy, CURLoption option, long value) {
  return curl_easy_setopt(easy, option, value);
}

CURLcode stalecast_easy_set_text(CURL *easy, CURLoption option, const char *value) {
  return curl_easy_setopt(easy, option, value);
}

CURLcode stalecast_easy_set_pointer(CURL *easy, CURLoption option, const void *value) {
  return curl_easy_setopt(easy, option, value);
}

CURLcode stalecast_easy_set_blob(CURL *easy, CURLoption option, const void *bytes, size_t count) {
  struct curl_blob blob = {.data = (void *)bytes, .len = count, .flags = CURL_BLOB_COPY};
  return curl_easy_setopt(easy, option, bytes ? &blob : NULL);
}

CURLcode stalecast_easy_set_body(stalecast_transfer *transfer, const void *bytes, size_t count, bool is_new) {
  if (transfer->sent_capacity > kept_memory) {
    free(transfer->sent);
    transfer->sent = NULL;
    transfer->sent_capacity = 0;
  }
  const uint8_t *before = transfer->sent;
  if (!grow((void **)&transfer->sent, &transfer->sent_capacity, count ? count : 1)) return CURLE_OUT_OF_MEMORY;
  if (count) memcpy(transfer->sent, bytes, count);
  if (is_new || count != transfer->sent_length) {
    curl_easy_setopt(transfer->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)count);
    transfer->sent_length = count;
  }
  if (!is_new && before == transfer->sent) return CURLE_OK;
  return curl_easy_setopt(transfer->easy, CURLOPT_POSTFIELDS, transfer->sent);
}

CURLcode stalecast_easy_lend_body(stalecast_transfer *transfer, const void *bytes, size_t count, bool is_new) {
  if (is_new || count != transfer->sent_length) {
    curl_easy_setopt(transfer->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)count);
    transfer->sent_length = count;
  }
  return curl_easy_setopt(transfer->easy, CURLOPT_POSTFIELDS, bytes);
}

long stalecast_easy_long(CURL *easy, CURLINFO info) {
  long value = 0;
  curl_easy_getinfo(easy, info, &value);
  return value;
}

int64_t stalecast_easy_time(CURL *easy, CURLINFO info) {
  curl_off_t value = 0;
  curl_easy_getinfo(easy, info, &value);
  return value;
}

const char *stalecast_easy_text(CURL *easy, CURLINFO info) {
  char *value = NULL;
  curl_easy_getinfo(easy, info, &value);
  return value ? value : "";
}

// MARK: - Headers

bool stalecast_headers_set(stalecast_headers *headers, const void *text, size_t length, const uint32_t *starts,
                           size_t count) {
  size_t needed = count * sizeof(struct curl_slist) + length;
  if (!grow((void **)&headers->first, &headers->capacity, needed)) return false;
  struct curl_slist *lines = headers->first;
  char *place = (char *)(lines + count);
  memcpy(place, text, length);
  for (size_t index = 0; index < count; index++) {
    lines[index].data = place + starts[index];
    lines[index].next = index + 1 < count ? &lines[index + 1] : NULL;
  }
  return true;
}

void stalecast_headers_free(stalecast_headers *headers) { free(headers->first); }
