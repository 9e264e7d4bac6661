// What the kernel alone asks for one message on one connection: the floor that the stream engine is measured against.
//
//   floor SUBSCRIBERS ROUNDS BYTES
//
// Two processes on loopback. One holds SUBSCRIBERS accepted connections in as many threads as there are processors, each
// with an epoll of its own, and in every round send(2)s BYTES to each of them. The other one reads. Prints the CPU time
// of the first per delivery, and the median time from the first send to the last byte read.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct shard {
  int wake, count, *sockets;
  pthread_t thread;
};

static char message[65536];
static size_t length;
static int finished;

static void check(int is_right, const char *what) {
  if (is_right) return;
  perror(what);
  exit(1);
}

static double seconds(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

// Waits in epoll, as a server does, for the next message and for whatever its clients may say.
static void *serve(void *argument) {
  struct shard *shard = argument;
  int poll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN, .data.fd = shard->wake};
  epoll_ctl(poll, EPOLL_CTL_ADD, shard->wake, &event);
  for (int index = 0; index < shard->count; index++) {
    event = (struct epoll_event){.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.fd = shard->sockets[index]};
    epoll_ctl(poll, EPOLL_CTL_ADD, shard->sockets[index], &event);
  }
  for (;;) {
    struct epoll_event events[64];
    int ready = epoll_wait(poll, events, 64, -1);
    for (int each = 0; each < ready; each++) {
      if (events[each].data.fd != shard->wake) continue;
      uint64_t rings;
      check(read(shard->wake, &rings, sizeof rings) == sizeof rings, "read");
      if (finished) return NULL;
      for (int index = 0; index < shard->count; index++)
        check(send(shard->sockets[index], message, length, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)length, "send");
    }
  }
}

// The other process: connects, then reads all that comes and says after each round that all of it was there.
static void listen_to(struct sockaddr_in address, int subscribers, int rounds, int tell) {
  int poll = epoll_create1(0);
  for (int index = 0; index < subscribers; index++) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0, "connect");
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event);
  }
  for (int round = 0; round < rounds; round++) {
    size_t left = (size_t)subscribers * length;
    while (left > 0) {
      struct epoll_event events[512];
      int ready = epoll_wait(poll, events, 512, -1);
      for (int each = 0; each < ready; each++) {
        char bytes[65536];
        ssize_t count = read(events[each].data.fd, bytes, sizeof bytes);
        if (count > 0) left -= (size_t)count;
      }
    }
    check(write(tell, "", 1) == 1, "write");
  }
}

static int by_size(const void *left, const void *right) {
  double difference = *(const double *)left - *(const double *)right;
  return (difference > 0) - (difference < 0);
}

int main(int count, char **arguments) {
  int subscribers = count > 1 ? atoi(arguments[1]) : 10000, rounds = count > 2 ? atoi(arguments[2]) : 9;
  length = count > 3 ? (size_t)atoi(arguments[3]) : 480;
  if (subscribers < 1 || rounds < 1 || length < 1 || length > sizeof message) {
    fprintf(stderr, "floor SUBSCRIBERS ROUNDS BYTES (at most %zu)\n", sizeof message);
    return 2;
  }
  memset(message, 'x', length);
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);

  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), done[2];
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  check(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 4096) == 0, "listen");
  check(getsockname(listener, (struct sockaddr *)&address, &size) == 0 && pipe(done) == 0, "pipe");
  pid_t reader = fork();
  check(reader >= 0, "fork");
  if (reader == 0) {
    close(listener);
    listen_to(address, subscribers, rounds, done[1]);
    return 0;
  }

  int threads = (int)sysconf(_SC_NPROCESSORS_ONLN), one = 1;
  struct shard *shards = calloc((size_t)threads, sizeof *shards);
  for (int index = 0; index < threads; index++) {
    shards[index].wake = eventfd(0, EFD_NONBLOCK);
    shards[index].sockets = calloc((size_t)subscribers, sizeof(int));
  }
  for (int index = 0; index < subscribers; index++) {
    struct shard *shard = &shards[index % threads];
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    check(fd >= 0, "accept");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    shard->sockets[shard->count++] = fd;
  }
  for (int index = 0; index < threads; index++) pthread_create(&shards[index].thread, NULL, serve, &shards[index]);

  double *times = calloc((size_t)rounds, sizeof *times), cpu = 0;
  for (int round = 0; round < rounds; round++) {
    struct timespec pause = {.tv_nsec = 200000000};
    nanosleep(&pause, NULL);
    double used = seconds(CLOCK_PROCESS_CPUTIME_ID), begun = seconds(CLOCK_MONOTONIC);
    uint64_t ring = 1;
    for (int index = 0; index < threads; index++)
      check(write(shards[index].wake, &ring, sizeof ring) == sizeof ring, "write");
    char byte;
    check(read(done[0], &byte, 1) == 1, "read");
    times[round] = seconds(CLOCK_MONOTONIC) - begun;
    cpu += seconds(CLOCK_PROCESS_CPUTIME_ID) - used;
  }
  qsort(times, (size_t)rounds, sizeof *times, by_size);
  printf("floor: %.2f us of CPU per delivery, %.1f ms to the last of %d (median of %d rounds, %zu bytes)\n",
         cpu / rounds / subscribers * 1e6, times[rounds / 2] * 1e3, subscribers, rounds, length);
  finished = 1;
  uint64_t ring = 1;
  for (int index = 0; index < threads; index++) check(write(shards[index].wake, &ring, sizeof ring) > 0, "write");
  for (int index = 0; index < threads; index++) pthread_join(shards[index].thread, NULL);
  waitpid(reader, NULL, 0);
  return 0;
}
