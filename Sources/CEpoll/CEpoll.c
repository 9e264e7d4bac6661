#define _GNU_SOURCE
#include "CEpoll.h"

#include <poll.h>
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int fail(int fd) {
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

static socklen_t fill_address(struct sockaddr_storage *storage, const char *host, uint16_t port, bool ipv6) {
  memset(storage, 0, sizeof *storage);
  if (ipv6) {
    struct sockaddr_in6 *address = (struct sockaddr_in6 *)storage;
    address->sin6_family = AF_INET6;
    address->sin6_port = htons(port);
    return inet_pton(AF_INET6, host, &address->sin6_addr) == 1 ? sizeof *address : 0;
  }
  struct sockaddr_in *address = (struct sockaddr_in *)storage;
  address->sin_family = AF_INET;
  address->sin_port = htons(port);
  return inet_pton(AF_INET, host, &address->sin_addr) == 1 ? sizeof *address : 0;
}

int stalecast_listen(const char *host, uint16_t port, bool ipv6, bool share, int backlog, unsigned user_timeout_ms,
                     int send_buffer) {
  struct sockaddr_storage storage;
  socklen_t length = fill_address(&storage, host, port, ipv6);
  if (length == 0) {
    errno = EINVAL;
    return -1;
  }
  int fd = socket(ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  int one = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (share) setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms, sizeof user_timeout_ms);
  if (send_buffer > 0) setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof send_buffer);
  if (bind(fd, (struct sockaddr *)&storage, length) != 0 || listen(fd, backlog) != 0) return fail(fd);
  return fd;
}

uint16_t stalecast_local_port(int fd) {
  struct sockaddr_storage storage;
  socklen_t length = sizeof storage;
  if (getsockname(fd, (struct sockaddr *)&storage, &length) != 0) return 0;
  if (storage.ss_family == AF_INET6) return ntohs(((struct sockaddr_in6 *)&storage)->sin6_port);
  return ntohs(((struct sockaddr_in *)&storage)->sin_port);
}

int stalecast_accept(int listener, uint64_t *address) {
  struct sockaddr_storage storage;
  socklen_t length = sizeof storage;
  int fd = accept4(listener, (struct sockaddr *)&storage, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) return fd;
  if (storage.ss_family == AF_INET6) {
    memcpy(address, &((struct sockaddr_in6 *)&storage)->sin6_addr, sizeof *address);
    *address |= UINT64_C(1) << 63;
  } else {
    *address = ((struct sockaddr_in *)&storage)->sin_addr.s_addr;
  }
  return fd;
}

ssize_t stalecast_peek(int fd, void *buffer, size_t count) { return recv(fd, buffer, count, MSG_PEEK | MSG_DONTWAIT); }

ssize_t stalecast_discard(int fd, size_t count) { return recv(fd, NULL, count, MSG_TRUNC | MSG_DONTWAIT); }

ssize_t stalecast_send(int fd, const void *bytes, size_t count) {
  return send(fd, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static int add(int epoll, int fd, uint64_t tag, uint32_t events) {
  struct epoll_event event = {.events = events, .data.u64 = tag};
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

int stalecast_epoll_add(int epoll, int fd, uint64_t tag) {
  return add(epoll, fd, tag, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
}

int stalecast_epoll_add_level(int epoll, int fd, uint64_t tag) { return add(epoll, fd, tag, EPOLLIN); }

int stalecast_epoll_remove(int epoll, int fd) {
  struct epoll_event ignored = {0};
  return epoll_ctl(epoll, EPOLL_CTL_DEL, fd, &ignored);
}

uint64_t stalecast_event_tag(const struct epoll_event *event) { return event->data.u64; }

int stalecast_eventfd(void) { return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); }

void stalecast_ring(int fd) {
  uint64_t one = 1;
  while (write(fd, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void stalecast_drain(int fd) {
  uint64_t count;
  while (read(fd, &count, sizeof count) < 0 && errno == EINTR) {
  }
}

int stalecast_inotify(void) { return inotify_init1(IN_NONBLOCK | IN_CLOEXEC); }

int stalecast_inotify_watch(int fd, const char *directory) {
  return inotify_add_watch(fd, directory,
                           IN_CREATE | IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE |
                               IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR);
}

void stalecast_inotify_unwatch(int fd, int watch) { inotify_rm_watch(fd, watch); }

size_t stalecast_inotify_event(const void *buffer, size_t count, size_t offset, struct stalecast_file_event *event) {
  struct inotify_event header;
  if (count < offset + sizeof header) return 0;
  const char *start = (const char *)buffer + offset;
  memcpy(&header, start, sizeof header);
  if (count < offset + sizeof header + header.len) return 0;
  event->watch = header.mask & IN_Q_OVERFLOW ? -1 : header.wd;
  event->is_gone = (header.mask & (IN_IGNORED | IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT)) != 0;
  event->is_unfinished = (header.mask & IN_MODIFY) != 0;
  event->name = header.len > 0 ? start + sizeof header : "";
  return offset + sizeof header + header.len;
}

uint64_t stalecast_raise_descriptor_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  if (limit.rlim_cur < limit.rlim_max) {
    struct rlimit raised = {limit.rlim_max, limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  return limit.rlim_cur;
}

void stalecast_name_thread(const char *name) { pthread_setname_np(pthread_self(), name); }

static uint64_t nanoseconds(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

uint64_t stalecast_thread_cpu_ns(void) { return nanoseconds(CLOCK_THREAD_CPUTIME_ID); }
uint64_t stalecast_process_cpu_ns(void) { return nanoseconds(CLOCK_PROCESS_CPUTIME_ID); }
uint64_t stalecast_monotonic_ns(void) { return nanoseconds(CLOCK_MONOTONIC); }

void stalecast_wait_until(int fd, uint64_t monotonic_ns) {
  uint64_t now = stalecast_monotonic_ns();
  uint64_t left = monotonic_ns > now ? monotonic_ns - now : 0;
  struct timespec limit = {.tv_sec = (time_t)(left / 1000000000u), .tv_nsec = (long)(left % 1000000000u)};
  struct pollfd input = {.fd = fd, .events = POLLIN};
  ppoll(&input, 1, &limit, NULL);
}
