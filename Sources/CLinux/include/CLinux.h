// The few Linux calls Swift cannot import, for all targets: sockets and epoll (Edge, Outbound, the load
// generator), inotify (Sources), signals (Daemon), eventfd, limits, thread names and CPU clocks (all). Every function
// returns what the call returns; errno is left as the call set it.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/types.h>
#include <sys/uio.h>

// A listening TCP socket on host:port, non-blocking, close-on-exec. What accepted sockets inherit is set here once:
// TCP_NODELAY, TCP_USER_TIMEOUT (ms) and the send buffer (bytes; 0 leaves the kernel's). share: SO_REUSEPORT.
int stalecast_listen(const char *host, uint16_t port, bool ipv6, bool share, int backlog, unsigned user_timeout_ms,
                     int send_buffer);

// The same of a listening socket that another process opened and keeps: a descriptor of our own for it. -1, with errno
// EADDRNOTAVAIL when it listens elsewhere or does not listen.
int stalecast_adopt_listener(int fd, const char *host, uint16_t port, bool ipv6, unsigned user_timeout_ms,
                             int send_buffer);

// The port a socket is bound to; 0 on error.
uint16_t stalecast_local_port(int fd);

// Unacknowledged data for so many milliseconds means a dead peer: TCP_USER_TIMEOUT. Accepted sockets inherit it.
int stalecast_set_user_timeout(int fd, unsigned milliseconds);

// Two ends of a TCP connection over loopback, non-blocking and close-on-exec, that no other process can have: the
// listener is closed before this returns, and who came is looked at. 0, or -1 without one.
int stalecast_loopback_pair(int *ends);

// accept4 with SOCK_NONBLOCK | SOCK_CLOEXEC. address: the key of the peer's address.
int stalecast_accept(int listener, uint64_t *address);

// A 64-bit key of an address without its port, under which connections from one place are counted together. IPv4: the
// address, also where a dual-stack socket shows it as ::ffff:a.b.c.d. IPv6: the network, its first 64 bits, because
// one host has a whole one; within 0::/64 (::1) the host.
uint64_t stalecast_address_key(const void *sockaddr);

// The same of an address of 4 or 16 bytes in network order; 0 for any other count.
uint64_t stalecast_address_key_of(const uint8_t *bytes, size_t count);

// The address of a socket's peer, in network order: 4 or 16 bytes, or 0 where there is none.
size_t stalecast_peer(int fd, uint8_t bytes[16]);

// Whether that is the key of 127.0.0.0/8 or ::1.
bool stalecast_is_loopback_key(uint64_t key);

// Reads without taking from the socket (MSG_PEEK), never blocks.
ssize_t stalecast_peek(int fd, void *buffer, size_t count);

// Reads what there is, never blocks.
ssize_t stalecast_receive(int fd, void *buffer, size_t count);

// Takes exactly the bytes a peek has seen, without copying them.
ssize_t stalecast_discard(int fd, size_t count);

// Bytes that the peer's kernel has not acknowledged, sent or not (SIOCOUTQ); -1 when it cannot be told.
int stalecast_unacknowledged(int fd);

// Bytes that the peer has acknowledged since the connection began; 0 where that cannot be told.
uint64_t stalecast_acknowledged(int fd);

// send with MSG_DONTWAIT | MSG_NOSIGNAL.
ssize_t stalecast_send(int fd, const void *bytes, size_t count);
// Sends several pieces, one after the other, as stalecast_send does.
ssize_t stalecast_send_pieces(int fd, const struct iovec *pieces, size_t count);

// Sends to many sockets that the kernel gets with one call (io_uring). It belongs to the thread that opened it.
enum { STALECAST_BATCH = 64 };
typedef struct stalecast_batch stalecast_batch;
// NULL where the kernel is older than 6.1, or does not permit it.
stalecast_batch *stalecast_batch_open(void);
void stalecast_batch_close(stalecast_batch *batch);
// Adds what stalecast_send would send; at most STALECAST_BATCH of them. The bytes must stay until they are sent.
void stalecast_batch_add(stalecast_batch *batch, int fd, const void *bytes, size_t count);
// Sends what was added, and returns how many there were. results has the bytes of each in order, or -errno.
unsigned stalecast_batch_send(stalecast_batch *batch, ssize_t *results);

// Changes how many bytes the kernel may hold of what was sent (SO_SNDBUF, which it doubles).
void stalecast_set_send_buffer(int fd, int bytes);

// Adds fd, edge-triggered for input, output and the peer's end, with a 64-bit tag.
int stalecast_epoll_add(int epoll, int fd, uint64_t tag);
// Adds fd, level-triggered for input.
int stalecast_epoll_add_level(int epoll, int fd, uint64_t tag);
int stalecast_epoll_remove(int epoll, int fd);
uint64_t stalecast_event_tag(const struct epoll_event *event);

// Waits until fd (an epoll) has input or the monotonic clock shows that time, to the accuracy of the kernel's timers:
// epoll_wait knows whole milliseconds only.
void stalecast_wait_until(int fd, uint64_t monotonic_ns);

// A non-blocking eventfd, and its ring and drain.
int stalecast_eventfd(void);
void stalecast_ring(int fd);
void stalecast_drain(int fd);

// A non-blocking inotify instance; -1 where there is none to be had.
int stalecast_inotify(void);

// Watches a directory for everything that can change what its names show. Returns the watch, the same one for a
// directory that is watched already.
int stalecast_inotify_watch(int fd, const char *directory);

void stalecast_inotify_unwatch(int fd, int watch);

// One event of a buffer that was read from an inotify instance.
struct stalecast_file_event {
  int watch;         // -1: events were lost
  bool is_gone;      // the watch is over: the directory went away
  bool is_unfinished;  // a file was written to and is still open
  const char *name;  // inside the directory; empty for the directory itself
};

// Reads the event at offset; returns the offset of the next, 0 at the end.
size_t stalecast_inotify_event(const void *buffer, size_t count, size_t offset, struct stalecast_file_event *event);

// Raises the soft descriptor limit to the hard one; returns the limit in force.
uint64_t stalecast_raise_descriptor_limit(void);

// Names the calling thread, at most 15 characters.
void stalecast_name_thread(const char *name);

// Lets other threads run before the calling one: 1 to 19, see nice(2). Where that is forbidden nothing changes.
void stalecast_nice_thread(int nice);

// CPU time of the calling thread and of the process, and the monotonic clock, in nanoseconds.
uint64_t stalecast_thread_cpu_ns(void);
uint64_t stalecast_process_cpu_ns(void);
uint64_t stalecast_monotonic_ns(void);

// "release", or the number and short name of a commit before it ("git14.51b72f7"); and the whole name of the commit. Both
// are empty in a plain `swift build`: deploy/install.sh links others in their place.
const char *stalecast_build(void);
const char *stalecast_revision(void);

// From now on these signals do nothing but become readable on the returned descriptor, whatever all other threads do.
// To be called once; -1 on error.
int stalecast_take_signals(const int *signals, int count);

// Waits for the next of those signals; 0 when the monotonic clock shows that time first.
int stalecast_next_signal(int fd, uint64_t monotonic_ns);

// What ends a process by crashing it (SIGSEGV, SIGABRT and so on) ends it at once. keep: what the Swift runtime does
// about its own crashes stays; what another process sent ends this one all the same.
void stalecast_crash_at_once(bool keep);

// Whether the kernel's clock is kept by a time service: 1 yes, 0 no, -1 where it does not say.
int stalecast_clock_is_synchronised(void);

// Writes to standard error unless that would block.
void stalecast_last_words(const char *text);

// Sets blocks aside behind the end of a file, which stays where it is. 0, also where the file system cannot do so; or the
// errno when there is no room.
int stalecast_reserve(int fd, int64_t bytes);
