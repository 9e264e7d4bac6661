#define _GNU_SOURCE
#include "CLinux.h"

#include <poll.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

// Weak: a linked object that has them counts instead.
__attribute__((weak)) const char *stalecast_build(void) { return ""; }
__attribute__((weak)) const char *stalecast_revision(void) { return ""; }

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
  stalecast_set_user_timeout(fd, user_timeout_ms);
  if (send_buffer > 0) setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof send_buffer);
  if (bind(fd, (struct sockaddr *)&storage, length) != 0 || listen(fd, backlog) != 0) return fail(fd);
  return fd;
}

static bool listens_on(int fd, const char *host, uint16_t port, bool ipv6) {
  struct sockaddr_storage wanted, found;
  socklen_t length = sizeof found, size = sizeof(int);
  int listening = 0;
  if (fill_address(&wanted, host, port, ipv6) == 0) return false;
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || !listening) return false;
  if (getsockname(fd, (struct sockaddr *)&found, &length) != 0 || found.ss_family != wanted.ss_family) return false;
  if (stalecast_local_port(fd) != port) return false;
  return ipv6 ? memcmp(&((struct sockaddr_in6 *)&found)->sin6_addr, &((struct sockaddr_in6 *)&wanted)->sin6_addr, 16) == 0
              : ((struct sockaddr_in *)&found)->sin_addr.s_addr == ((struct sockaddr_in *)&wanted)->sin_addr.s_addr;
}

int stalecast_adopt_listener(int fd, const char *host, uint16_t port, bool ipv6, unsigned user_timeout_ms,
                             int send_buffer) {
  if (!listens_on(fd, host, port, ipv6)) {
    errno = EADDRNOTAVAIL;
    return -1;
  }
  int own = fcntl(fd, F_DUPFD_CLOEXEC, 0), one = 1;
  if (own < 0) return -1;
  if (fcntl(own, F_SETFL, fcntl(own, F_GETFL) | O_NONBLOCK) != 0) return fail(own);
  setsockopt(own, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  stalecast_set_user_timeout(own, user_timeout_ms);
  if (send_buffer > 0) setsockopt(own, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof send_buffer);
  return own;
}

int stalecast_set_user_timeout(int fd, unsigned milliseconds) {
  return setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
}

int stalecast_loopback_pair(int *ends) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, own, peer;
    socklen_t length = sizeof address, own_length = sizeof own, peer_length = sizeof peer;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), server = -1, one = 1;
    if (listener >= 0 && client >= 0 && bind(listener, (struct sockaddr *)&address, length) == 0 && listen(listener, 1) == 0 &&
        getsockname(listener, (struct sockaddr *)&address, &length) == 0 &&
        connect(client, (struct sockaddr *)&address, length) == 0 &&
        getsockname(client, (struct sockaddr *)&own, &own_length) == 0) {
        server = accept4(listener, (struct sockaddr *)&peer, &peer_length, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (server >= 0 && (peer.sin_port != own.sin_port || peer.sin_addr.s_addr != own.sin_addr.s_addr)) {
            close(server);
            server = -1;
        }
    }
    if (listener >= 0) close(listener);
    if (server < 0) {
        if (client >= 0) close(client);
        return -1;
    }
    fcntl(client, F_SETFL, O_NONBLOCK);
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    ends[0] = server;
    ends[1] = client;
    return 0;
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
  *address = stalecast_address_key(&storage);
  return fd;
}

static size_t address_bytes(const struct sockaddr *address, const uint8_t **bytes) {
  if (address->sa_family == AF_INET) {
    *bytes = (const uint8_t *)&((const struct sockaddr_in *)address)->sin_addr;
    return 4;
  }
  if (address->sa_family != AF_INET6) return 0;
  *bytes = ((const struct sockaddr_in6 *)address)->sin6_addr.s6_addr;
  return 16;
}

uint64_t stalecast_address_key(const void *sockaddr) {
  const uint8_t *bytes = NULL;
  size_t count = address_bytes(sockaddr, &bytes);
  return stalecast_address_key_of(bytes, count);
}

uint64_t stalecast_address_key_of(const uint8_t *bytes, size_t count) {
  static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF};
  uint32_t ipv4;
  if (count != 4 && count != 16) return 0;
  memcpy(&ipv4, bytes + count - 4, sizeof ipv4);
  if (count == 4 || memcmp(bytes, mapped, sizeof mapped) == 0) return ipv4;
  uint64_t network, host;
  memcpy(&network, bytes, sizeof network);
  memcpy(&host, bytes + 8, sizeof host);
  // No IPv4 address has a bit above the lower half.
  return (network != 0 ? network : host) | UINT64_C(1) << 63;
}

size_t stalecast_peer(int fd, uint8_t bytes[16]) {
  struct sockaddr_storage storage;
  socklen_t length = sizeof storage;
  const uint8_t *found = NULL;
  if (getpeername(fd, (struct sockaddr *)&storage, &length) != 0) return 0;
  size_t count = address_bytes((const struct sockaddr *)&storage, &found);
  if (count > 0) memcpy(bytes, found, count);
  return count;
}

bool stalecast_is_loopback_key(uint64_t key) {
  const struct sockaddr_in6 own = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  bool is_ipv4 = key <= UINT32_MAX;
  return is_ipv4 ? ntohl((uint32_t)key) >> 24 == 127 : key == stalecast_address_key(&own);
}

ssize_t stalecast_peek(int fd, void *buffer, size_t count) { return recv(fd, buffer, count, MSG_PEEK | MSG_DONTWAIT); }

ssize_t stalecast_receive(int fd, void *buffer, size_t count) { return recv(fd, buffer, count, MSG_DONTWAIT); }

ssize_t stalecast_discard(int fd, size_t count) { return recv(fd, NULL, count, MSG_TRUNC | MSG_DONTWAIT); }

int stalecast_unacknowledged(int fd) {
  int bytes = 0;
  return ioctl(fd, SIOCOUTQ, &bytes) == 0 ? bytes : -1;
}

ssize_t stalecast_send(int fd, const void *bytes, size_t count) {
  return send(fd, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL);
}

ssize_t stalecast_send_pieces(int fd, const struct iovec *pieces, size_t count) {
  struct msghdr message = {.msg_iov = (struct iovec *)pieces, .msg_iovlen = count};
  return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void stalecast_set_send_buffer(int fd, int bytes) { setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes); }

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

// On Linux this is the thread's own.
void stalecast_nice_thread(int nice) { setpriority(PRIO_PROCESS, 0, nice); }

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

static int signal_sink = -1;

static void note_signal(int number) {
  int before = errno;
  unsigned char byte = (unsigned char)number;
  // A full pipe has signals enough in it.
  ssize_t written = write(signal_sink, &byte, 1);
  (void)written;
  errno = before;
}

int stalecast_take_signals(const int *signals, int count) {
  int ends[2];
  if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) return -1;
  signal_sink = ends[1];
  struct sigaction action = {.sa_handler = note_signal, .sa_flags = SA_RESTART};
  for (int index = 0; index < count; index++) sigaction(signals[index], &action, NULL);
  return ends[0];
}

int stalecast_next_signal(int fd, uint64_t monotonic_ns) {
  for (;;) {
    unsigned char byte;
    if (read(fd, &byte, 1) == 1) return byte;
    if (stalecast_monotonic_ns() >= monotonic_ns) return 0;
    stalecast_wait_until(fd, monotonic_ns);
  }
}

static struct sigaction runtime_actions[NSIG];

// Runs for crashes only while the runtime's backtracer is wanted.
static void crashed(int number, siginfo_t *info, void *context) {
  struct sigaction runtime = runtime_actions[number];
  if (info->si_code <= 0 && info->si_pid != getpid()) {
    // The runtime would write its trace and go on.
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigaction(number, &plain, NULL);
    raise(number);
    return;
  }
  sigaction(number, &runtime, NULL);
  if (runtime.sa_flags & SA_SIGINFO) runtime.sa_sigaction(number, info, context);
}

void stalecast_crash_at_once(bool keep) {
  static const int numbers[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGQUIT, SIGSEGV, SIGTRAP};
  for (size_t index = 0; index < sizeof numbers / sizeof *numbers; index++) {
    int number = numbers[index];
    struct sigaction *runtime = &runtime_actions[number];
    sigaction(number, NULL, runtime);
    if (!(runtime->sa_flags & SA_SIGINFO) || runtime->sa_sigaction == crashed) continue;
    struct sigaction ours = {.sa_sigaction = crashed, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigaction(number, keep ? &ours : &plain, NULL);
  }
}

int stalecast_clock_is_synchronised(void) {
  struct timex clock = {0};
  int state = adjtimex(&clock);
  return state < 0 ? -1 : state != TIME_ERROR && !(clock.status & STA_UNSYNC);
}

void stalecast_last_words(const char *text) {
  struct pollfd output = {.fd = STDERR_FILENO, .events = POLLOUT};
  if (poll(&output, 1, 0) != 1 || !(output.revents & POLLOUT)) return;
  ssize_t written = write(STDERR_FILENO, text, strlen(text));
  (void)written;
}

int stalecast_reserve(int fd, int64_t bytes) {
    off_t end = lseek(fd, 0, SEEK_END);
    if (end >= 0 && fallocate(fd, FALLOC_FL_KEEP_SIZE, end, bytes) == 0) return 0;
    switch (errno) {
    case ENOSPC: case EDQUOT: case EIO: case EROFS: case EFBIG: return errno;
    default: return 0;
    }
}
