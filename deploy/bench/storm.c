// What it costs when every client fetches at once: answers a second, CPU of each, and how long clients wait.
//
//   storm fetch|file PORT PID CLIENTS ROUNDS [COMMAND]
//
// Opens CLIENTS connections to 127.0.0.1:PORT of the server PID, and asks once on each, which is not counted. In each of
// ROUNDS rounds it runs COMMAND, which publishes and prints the version, then asks on all connections as fast as it can
// and reads the answers whole. `fetch` posts the body of an Android SDK with an id of its own for each client, and counts
// answers of a lower version as stale; `file` gets /answer.json. Prints the medians of the rounds.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct client {
  int fd;
  size_t got, due;
  double asked;
};

static struct client *clients;
static int poll_fd, is_fetch, answered, stale;
static long version;
static double *waits;

static void fail(const char *what) {
  fprintf(stderr, "storm: %s\n", what);
  exit(1);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

// CPU time of all threads of a process in seconds; what its scheduler counts, not a sample.
static double used_by_one(int pid) {
  char path[300];
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR *threads = opendir(path);
  if (!threads) fail("the server is gone");
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

// The process and its children: nginx serves in workers.
static double used_by(int pid) {
  char path[100];
  snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
  double total = used_by_one(pid);
  FILE *file = fopen(path, "r");
  for (int child; file && fscanf(file, "%d", &child) == 1;) total += used_by_one(child);
  if (file) fclose(file);
  return total;
}

static size_t write_request(char *request, int index) {
  if (!is_fetch) return (size_t)sprintf(request, "GET /answer.json HTTP/1.1\r\nHost: localhost\r\n\r\n");
  char body[700];
  int count = sprintf(body,
                      "{\"appInstanceId\":\"c%021d\",\"appInstanceIdToken\":\"t\",\"appId\":\"1:123456789012:android:57a1e\","
                      "\"countryCode\":\"GB\",\"languageCode\":\"en-GB\",\"platformVersion\":\"34\",\"appVersion\":\"4.2.1\","
                      "\"sdkVersion\":\"22.1.0\",\"customSignals\":{\"city\":\"%s\",\"tier\":\"%d\"}}",
                      index, index % 2 ? "leeds" : "york", index % 3);
  return (size_t)sprintf(request,
                         "POST /v1/projects/demo/namespaces/firebase:fetch HTTP/1.1\r\nHost: localhost\r\n"
                         "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
                         count, body);
}

static void ask(int index) {
  char request[1400];
  size_t count = write_request(request, index);
  clients[index].got = clients[index].due = 0;
  clients[index].asked = now();
  if (send(clients[index].fd, request, count, MSG_NOSIGNAL) != (ssize_t)count) fail("a request was not taken");
}

// The first bytes of an answer, which hold its head: how long it is.
static void begin(struct client *client, const char *bytes) {
  const char *end = strstr(bytes, "\r\n\r\n"), *length = strcasestr(bytes, "content-length:");
  if (strncmp(bytes, "HTTP/1.1 200", 12) || !end || !length) fail("an answer is not 200 with a length");
  client->due = (size_t)(end + 4 - bytes) + strtoul(length + 15, NULL, 10);
}

static void step(int index) {
  static char bytes[1 << 18];
  struct client *client = &clients[index];
  for (;;) {
    ssize_t count = recv(client->fd, bytes, sizeof bytes - 1, MSG_DONTWAIT);
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) fail("a connection ended");
    bytes[count] = 0;
    if (client->due == 0) begin(client, bytes);
    client->got += (size_t)count;
    if (client->got < client->due) continue;
    const char *found = is_fetch ? memmem(bytes, (size_t)count, "\"templateVersion\":\"", 19) : NULL;
    if (is_fetch && (!found || atol(found + 19) < version)) stale++;
    waits[answered++] = now() - client->asked;
    return;
  }
}

static void take(int milliseconds) {
  struct epoll_event events[512];
  int ready = epoll_wait(poll_fd, events, 512, milliseconds);
  if (ready == 0 && milliseconds > 0) fail("no answer within 10 s");
  for (int each = 0; each < ready; each++) step((int)events[each].data.u32);
}

// Asks on all connections; takes answers in between, as clients on machines of their own would.
static void ask_all(int size) {
  answered = 0;
  for (int index = 0; index < size; index++) {
    ask(index);
    if (index % 64 == 63) take(0);
  }
  while (answered < size) take(10000);
}

static long publish(const char *command) {
  FILE *output = popen(command, "r");
  long number = 0;
  if (!output || fscanf(output, "%ld", &number) != 1 || pclose(output) != 0) fail("nothing was published");
  return number;
}

static int by_size(const void *left, const void *right) {
  double difference = *(const double *)left - *(const double *)right;
  return (difference > 0) - (difference < 0);
}

static double median(double *values, int count) {
  qsort(values, (size_t)count, sizeof *values, by_size);
  return values[count / 2];
}

int main(int count, char **words) {
  if (count < 6) fail("usage: storm fetch|file PORT PID CLIENTS ROUNDS [COMMAND]");
  int pid = atoi(words[3]), size = atoi(words[4]), rounds = atoi(words[5]);
  is_fetch = strcmp(words[1], "fetch") == 0;
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  clients = calloc((size_t)size, sizeof *clients);
  waits = calloc((size_t)size, sizeof *waits);
  poll_fd = epoll_create1(0);
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)atoi(words[2])),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  for (int index = 0, one = 1; index < size; index++) {
    int fd = clients[index].fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) fail("a connection was refused");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)index};
    epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &event);
  }
  ask_all(size);
  double *figures[4];
  for (int kind = 0; kind < 4; kind++) figures[kind] = calloc((size_t)rounds, sizeof(double));
  for (int round = 0; round < rounds; round++) {
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    if (count > 6) version = publish(words[6]);
    double used = used_by(pid), began = now();
    ask_all(size);
    figures[0][round] = size / (now() - began);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    figures[1][round] = (used_by(pid) - used) / size * 1e6;
    figures[2][round] = median(waits, size) * 1e3;
    figures[3][round] = waits[size * 99 / 100] * 1e3;
  }
  printf("%-5s %.0f answers a second, %.1f us of CPU each, p50 %.0f ms, p99 %.0f ms, %d stale (%d clients, %d rounds)\n",
         words[1], median(figures[0], rounds), median(figures[1], rounds), median(figures[2], rounds),
         median(figures[3], rounds), stale, size, rounds);
  return stale > 0;
}
