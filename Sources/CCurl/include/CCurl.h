// libcurl for Swift: typed forms of its variadic calls, and the callbacks that run for every request, which are C
// so that nothing is allocated or counted per call. Written for 7.88.1, the version of Debian 12.
#pragma once
#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Asked before a socket to `address` (4 or 16 bytes in network order, `length` of them) is opened, and before a
// request goes out on a connection to it. `context` is what the transfer was given.
typedef bool (*stalecast_guard)(void *context, const uint8_t *address, size_t length, int port);
// Bytes of a streamed body, or with none the end of its head. False ends the transfer.
typedef bool (*stalecast_bytes)(void *context, int status, const uint8_t *bytes, size_t count);

// Counts of all multi handles of an engine together.
typedef struct {
  // Open, idle ones included.
  int sockets;
  // Easy handles, those that are not in use included.
  int handles;
  // TLS handshakes, and those of them that resumed a session.
  uint64_t handshakes, resumed;
} stalecast_curl_counts;

// Part that all multi handles of an engine share: their counts, and the connections that they may keep together.
typedef struct {
  stalecast_curl_counts *counts;
  long kept;
  // Number of multi handles.
  int handles;
} stalecast_curl_budget;

// Connections that a multi handle with so many sockets may keep now: those that it has, and its part of what all handles
// together have left.
long stalecast_curl_kept(const stalecast_curl_budget *budget, int sockets);

// One multi handle, and the epoll descriptor that its sockets are in, which is not its own.
typedef struct {
  CURLM *multi;
  int epoll;
  // Of several that share an epoll: the upper half of the tags of its events, the lower one is the descriptor.
  uint32_t number;
  // What epoll watches each descriptor for; 0 for nothing.
  uint32_t *watched;
  int watched_capacity;
  // Of each descriptor that was closed: whether its peer had accepted the connection.
  bool *reached;
  // Descriptors that were opened here and not by libcurl.
  bool *ours;
  // When libcurl wants to be called, on the monotonic clock, in ns; UINT64_MAX for never.
  uint64_t deadline;
  // Whether a transfer may have ended that stalecast_curl_next has not returned yet.
  bool has_news;
  // Open sockets, idle ones included.
  int sockets;
  stalecast_curl_budget budget;
} stalecast_curl;

// What the callbacks know of one transfer. Lives as long as its easy handle; the engine's thread alone touches it.
typedef struct {
  stalecast_curl *curl;
  CURL *easy;
  // Of the current request; unowned.
  void *context;
  stalecast_guard guard;
  stalecast_bytes on_bytes;  // NULL keeps the body here instead, as for a stream whose status is not 2xx
  // The body: at most `limit` bytes are kept, `total` counts all.
  uint8_t *body;
  size_t kept, capacity, limit, total;
  bool fail_when_longer;
  // The request's body.
  uint8_t *sent;
  size_t sent_length, sent_capacity;
  // The head of the final answer as it came, at most 16 KiB of it.
  char *head;
  size_t head_length, head_capacity;
  // First letters of its lines, a bit for each letter.
  uint32_t initials;
  // The host of the request is an address, which libcurl looks up without a thread.
  bool is_literal;
  // needs_addresses: there is no connection, and the request failed because libcurl knows no address of the host.
  // opened: a socket was made. connected: a request could go out.
  bool needs_addresses, opened, connected, blocked, too_large, cut;
  // The last one opened; -1 for none.
  int socket;
  // The last address that the guard let a request go to; asked about again after a change of policy.
  char allowed[64];
  long allowed_port;
  char error[CURL_ERROR_SIZE];
} stalecast_transfer;

// Prepares libcurl for the process; true when that worked. Safe to call often. Nothing else of libcurl may be called
// before: memory that it took before could not be freed afterwards.
bool stalecast_curl_prepare(void);

// NULL when memory or descriptors are short. Has the process ignore SIGPIPE.
stalecast_curl *stalecast_curl_new(int epoll, uint32_t number, stalecast_curl_budget budget);
void stalecast_curl_free(stalecast_curl *curl);

// Tells libcurl that its time has come, or that a socket is ready (`events` as epoll says).
void stalecast_curl_time(stalecast_curl *curl);
void stalecast_curl_socket(stalecast_curl *curl, int fd, uint32_t events);
bool stalecast_curl_add(stalecast_curl *curl, CURL *easy);
void stalecast_curl_remove(stalecast_curl *curl, CURL *easy);
// The next finished easy handle with its result; NULL when there is none.
CURL *stalecast_curl_next(stalecast_curl *curl, CURLcode *result);

// An easy handle with everything set that is the same for all requests, and its transfer as CURLOPT_PRIVATE.
CURL *stalecast_easy_new(stalecast_curl *curl, const char *ca_file);
void stalecast_easy_free(CURL *easy);
stalecast_transfer *stalecast_easy_transfer(CURL *easy);
// Forgets what the last request left in the transfer; keeps its memory unless that is much.
void stalecast_transfer_reset(stalecast_transfer *transfer);
// True when a connection was there before the request failed, as when TLS took too long.
bool stalecast_transfer_reached_peer(const stalecast_transfer *transfer);
// Forgets for which address the guard was asked.
void stalecast_transfer_forget_peer(stalecast_transfer *transfer);
// The value of the answer's last header of that name (lower case, `wanted` bytes), without blanks around it; NULL without
// one.
const char *stalecast_transfer_header(const stalecast_transfer *transfer, const uint8_t *name, size_t wanted,
                                      size_t *length);

CURLcode stalecast_easy_set_long(CURL *easy, CURLoption option, long value);
// The text is copied; NULL sets the default.
CURLcode stalecast_easy_set_text(CURL *easy, CURLoption option, const char *value);
// The memory must stay until the transfer is removed.
CURLcode stalecast_easy_set_pointer(CURL *easy, CURLoption option, const void *value);
// The bytes are copied; NULL sets the default.
CURLcode stalecast_easy_set_blob(CURL *easy, CURLoption option, const void *bytes, size_t count);
// Sets the body of a handle that is not in use; copies it into memory that serves one request after the other.
// `is_new`: the handle's last request had none, or one that was set by the other of these two functions.
CURLcode stalecast_easy_set_body(stalecast_transfer *transfer, const void *bytes, size_t count, bool is_new);
// Sets the body without a copy: its memory must stay until the transfer is removed.
CURLcode stalecast_easy_lend_body(stalecast_transfer *transfer, const void *bytes, size_t count, bool is_new);

long stalecast_easy_long(CURL *easy, CURLINFO info);
int64_t stalecast_easy_time(CURL *easy, CURLINFO info);
const char *stalecast_easy_text(CURL *easy, CURLINFO info);

// A header list in one piece of memory, which grows and is used again.
typedef struct {
  struct curl_slist *first;
  size_t capacity;
} stalecast_headers;

// Makes a list of `count` lines: line i begins at `starts[i]` in `text` and ends with a zero. Both are copied. False when
// memory is short; the list is then as before.
bool stalecast_headers_set(stalecast_headers *headers, const void *text, size_t length, const uint32_t *starts,
                           size_t count);
void stalecast_headers_free(stalecast_headers *headers);
