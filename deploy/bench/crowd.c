// What streams cost a daemon, over TLS 1.3, plain, or plain with the address that an OpenFeature provider is given: CPU
// time per delivery and per connection, resident memory a stream.
//
//   crowd tls|plain|flags PORT PID STREAMS ROUNDS COMMAND
//
// Opens STREAMS event streams on 127.0.0.1:PORT of the daemon PID, runs COMMAND, which publishes, in each of ROUNDS
// rounds and waits until every stream has got something. Every hundredth stream goes on decrypting, and says so when a
// record cannot be opened; the others count bytes. The medians of the rounds are printed.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { underWay = 128, witness = 100 };

struct stream {
  int fd, round;
  enum { connecting, shaking, asking, live } phase;
  SSL *tls;
};

static struct stream *streams;
static SSL_CTX *context;
static int poll_fd, alive, current, reached;
static int is_of_flags;

static void fail(const char *what) {
  fprintf(stderr, "crowd: %s\n", what);
  exit(1);
}

// CPU time of all threads of a process in seconds; what its scheduler counts, not a sample.
static double used_by(int pid) {
  char path[300];
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR *threads = opendir(path);
  if (!threads) fail("the daemon is gone");
  double total = 0;
  for (struct dirent *entry; (entry = readdir(threads));) {
    snprintf(path, sizeof path, "/proc/%d/task/%s/schedstat", pid, entry->d_name);
    FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
    double nanoseconds = 0;
    if (file && fscanf(file, "%lf", &nanoseconds) == 1) total += nanoseconds / 1e9;
    if (file) fclose(file);
  }
  closedir(threads);
  return total;
}

static double kilobytes_of(int pid) {
  char line[200];
  snprintf(line, sizeof line, "/proc/%d/smaps_rollup", pid);
  FILE *file = fopen(line, "r");
  double found = 0;
  while (file && fgets(line, sizeof line, file)) sscanf(line, "Rss: %lf", &found);
  if (file) fclose(file);
  return found;
}

static void rest(long milliseconds) {
  nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, NULL);
}

static void begin(int index, struct sockaddr_in *address) {
  struct stream *stream = &streams[index];
  int one = 1;
  stream->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (stream->fd < 0) fail("no descriptor left");
  connect(stream->fd, (struct sockaddr *)address, sizeof *address);
  setsockopt(stream->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.u32 = (uint32_t)index};
  epoll_ctl(poll_fd, EPOLL_CTL_ADD, stream->fd, &event);
}

// Each provider has a client of its own.
static int write_request(int index, char *text, size_t size) {
  char client[100] = "";
  if (is_of_flags) snprintf(client, sizeof client, "&project=demo&namespace=firebase&have=0&client=user-%d", index);
  return snprintf(text, size,
                  "GET /v1/events?topic=PUSH_RC%s HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n",
                  client);
}

static ssize_t receive(struct stream *stream, char *bytes, int count) {
  if (!stream->tls) return recv(stream->fd, bytes, (size_t)count, 0);
  int got = SSL_read(stream->tls, bytes, count);
  if (got > 0) return got;
  errno = SSL_get_error(stream->tls, got) == SSL_ERROR_WANT_READ ? EAGAIN : EPROTO;
  return -1;
}

static void became_live(struct stream *stream, int index) {
  stream->phase = live;
  alive++;
  // Only some go on decrypting: the machine is the daemon's.
  if (stream->tls && index % witness) {
    SSL_set_quiet_shutdown(stream->tls, 1);
    SSL_free(stream->tls);
    stream->tls = NULL;
  }
}

static void step(int index, uint32_t events) {
  static char bytes[65536];
  struct stream *stream = &streams[index];
  char request[500];
  int length = stream->phase < asking ? write_request(index, request, sizeof request) : 0;
  if (stream->phase == connecting) {
    if (!(events & EPOLLOUT)) return;
    if (context) {
      stream->tls = SSL_new(context);
      SSL_set_fd(stream->tls, stream->fd);
      stream->phase = shaking;
    } else {
      if (send(stream->fd, request, (size_t)length, 0) < 0) fail("a request was not taken");
      stream->phase = asking;
    }
  }
  if (stream->phase == shaking) {
    int result = SSL_connect(stream->tls);
    if (result != 1 && SSL_get_error(stream->tls, result) == SSL_ERROR_WANT_READ) return;
    if (result != 1) fail("a handshake failed");
    SSL_write(stream->tls, request, length);
    stream->phase = asking;
  }
  for (;;) {
    ssize_t count = receive(stream, bytes, sizeof bytes);
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) fail("a stream ended, or a record could not be opened");
    if (stream->phase == asking) {
      if (!memmem(bytes, (size_t)count, "event: synced", 13)) continue;
      became_live(stream, index);
    } else if (stream->round < current) {
      stream->round = current;
      reached++;
    }
  }
}

static int wait_some(int milliseconds) {
  struct epoll_event events[512];
  int ready = epoll_wait(poll_fd, events, 512, milliseconds);
  for (int each = 0; each < ready; each++) step((int)events[each].data.u32, events[each].events);
  return ready;
}

static int by_size(const void *left, const void *right) {
  double difference = *(const double *)left - *(const double *)right;
  return (difference > 0) - (difference < 0);
}

int main(int count, char **words) {
  if (count != 7) fail("usage: crowd tls|plain|flags PORT PID STREAMS ROUNDS COMMAND");
  int port = atoi(words[2]), pid = atoi(words[3]), size = atoi(words[4]), rounds = atoi(words[5]);
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  signal(SIGPIPE, SIG_IGN);
  is_of_flags = strcmp(words[1], "flags") == 0;
  if (strcmp(words[1], "tls") == 0) {
    context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
    SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256");
  }
  streams = calloc((size_t)size, sizeof *streams);
  poll_fd = epoll_create1(0);
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  double memory = kilobytes_of(pid), before = used_by(pid);
  for (int begun = 0; alive < size;) {
    while (begun < size && begun - alive < underWay) begin(begun++, &address);
    wait_some(1000);
  }
  rest(1000);
  double connects = (used_by(pid) - before) / size, held = (kilobytes_of(pid) - memory) / size;
  double *costs = calloc((size_t)rounds, sizeof *costs);
  for (current = 1; current <= rounds; current++) {
    reached = 0;
    double begun = used_by(pid);
    if (system(words[6]) != 0) fail("nothing was published");
    while (reached < size)
      if (wait_some(10000) == 0) fail("a message did not arrive within 10 s");
    rest(300);
    costs[current - 1] = (used_by(pid) - begun) / size;
  }
  qsort(costs, (size_t)rounds, sizeof *costs, by_size);
  printf("%s: %.2f us of CPU per delivery, %.2f kB a stream, %.0f us of CPU per connection (%d streams, %d rounds)\n",
         words[1], costs[rounds / 2] * 1e6, held, connects * 1e6, size, rounds);
  return 0;
}
