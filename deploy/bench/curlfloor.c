// What libcurl's multi interface alone asks for a delivery: the floor that webhooks are measured against.
//
//   curlfloor PORT ROUNDS IN_FLIGHT HOSTS
//
// A round posts a body as long as a STALE message to each of HOSTS addresses of 127.100.0.0/16, with IN_FLIGHT under way
// at once, one easy handle and one kept connection for each host. A first round makes the connections and is not counted.
// Rounds are 0.2 s apart, as publishes to a daemon are: both begin each round with cold caches.
// Prints posts a second, and microseconds of CPU of each: a line for `medians` of fetches.sh.
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static size_t ignore(char *bytes, size_t size, size_t count, void *context) {
  (void)bytes, (void)context;
  return size * count;
}

static double seconds(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static CURL *make(int port, int host, struct curl_slist *headers, const char *body) {
  char url[64];
  snprintf(url, sizeof url, "http://127.100.%d.%d:%d/hook", host / 250, host % 250 + 1, port);
  CURL *easy = curl_easy_init();
  curl_easy_setopt(easy, CURLOPT_URL, url);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, ignore);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  return easy;
}

// Posts to each host; returns how many had no answer 2xx.
static int post(CURLM *multi, CURL **easy, int hosts, int in_flight) {
  int started = 0, done = 0, bad = 0, running, left;
  while (done < hosts) {
    int before = done;
    while (started < hosts && started - done < in_flight) curl_multi_add_handle(multi, easy[started++]);
    curl_multi_perform(multi, &running);
    for (CURLMsg *message; (message = curl_multi_info_read(multi, &left));) {
      long status = 0;
      curl_easy_getinfo(message->easy_handle, CURLINFO_RESPONSE_CODE, &status);
      if (message->data.result != CURLE_OK || status / 100 != 2) bad++;
      curl_multi_remove_handle(multi, message->easy_handle);
      done++;
    }
    // Not after an answer: the next handles are added first, or there may be nothing to wait for.
    if (done == before) curl_multi_poll(multi, NULL, 0, 1000, NULL);
  }
  return bad;
}

int main(int argc, char **argv) {
  if (argc != 5) {
    fprintf(stderr, "curlfloor PORT ROUNDS IN_FLIGHT HOSTS\n");
    return 2;
  }
  int port = atoi(argv[1]), rounds = atoi(argv[2]), in_flight = atoi(argv[3]), hosts = atoi(argv[4]);
  curl_global_init(CURL_GLOBAL_ALL);
  CURLM *multi = curl_multi_init();
  CURL **easy = calloc((size_t)hosts, sizeof *easy);
  if (!multi || !easy || hosts < in_flight) return 2;
  curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)hosts);
  char body[600];
  memset(body, 'x', sizeof body - 1);
  body[sizeof body - 1] = 0;
  struct curl_slist *headers = NULL;
  const char *lines[] = {"Content-Type: application/json", "Expect:", "User-Agent: stalecast/0",
                         "webhook-id: msg_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "webhook-timestamp: 1700000000",
                         "webhook-signature: v1,xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"};
  for (size_t index = 0; index < sizeof lines / sizeof *lines; index++) headers = curl_slist_append(headers, lines[index]);
  for (int host = 0; host < hosts; host++) easy[host] = make(port, host, headers, body);
  int bad = post(multi, easy, hosts, in_flight);
  double used = 0, took = 0;
  for (int round = 0; round < rounds; round++) {
    usleep(200000);
    double before = seconds(CLOCK_PROCESS_CPUTIME_ID), began = seconds(CLOCK_MONOTONIC);
    bad += post(multi, easy, hosts, in_flight);
    took += seconds(CLOCK_MONOTONIC) - began;
    used += seconds(CLOCK_PROCESS_CPUTIME_ID) - before;
  }
  printf("libcurl %.0f %.2f 0\n", rounds * hosts / took, used * 1e6 / rounds / hosts);
  if (bad) fprintf(stderr, "%d posts were not taken\n", bad);
  return bad ? 1 : 0;
}
