// What libcurl's multi interface alone asks for a delivery: the floor that webhooks are measured against.
//
//   curlfloor PORT COUNT IN_FLIGHT HOSTS
//
// Posts COUNT bodies as long as a STALE message to HOSTS addresses of 127.100.0.0/16 in turn, with IN_FLIGHT under way at
// once, one easy handle and one kept connection for each host. A first round makes the connections and is not counted.
// Prints the CPU of this process for each post, in microseconds.
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static size_t ignore(char *bytes, size_t size, size_t count, void *context) {
  (void)bytes, (void)context;
  return size * count;
}

static double cpu(void) {
  struct rusage use;
  getrusage(RUSAGE_SELF, &use);
  return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
         (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
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

// Sends `total` posts; returns how many had no answer 2xx.
static int post(CURLM *multi, CURL **easy, int hosts, int total, int in_flight) {
  int started = 0, done = 0, bad = 0, running, left;
  while (done < total) {
    // A handle is its host's only one: the next may still be under way.
    while (started < total && started - done < in_flight) curl_multi_add_handle(multi, easy[started++ % hosts]);
    curl_multi_perform(multi, &running);
    for (CURLMsg *message; (message = curl_multi_info_read(multi, &left));) {
      long status = 0;
      curl_easy_getinfo(message->easy_handle, CURLINFO_RESPONSE_CODE, &status);
      if (message->data.result != CURLE_OK || status / 100 != 2) bad++;
      curl_multi_remove_handle(multi, message->easy_handle);
      done++;
    }
    if (done < total) curl_multi_poll(multi, NULL, 0, 1000, NULL);
  }
  return bad;
}

int main(int argc, char **argv) {
  if (argc != 5) {
    fprintf(stderr, "curlfloor PORT COUNT IN_FLIGHT HOSTS\n");
    return 2;
  }
  int port = atoi(argv[1]), count = atoi(argv[2]), in_flight = atoi(argv[3]), hosts = atoi(argv[4]);
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
  int bad = post(multi, easy, hosts, hosts, in_flight);
  double used = cpu();
  bad += post(multi, easy, hosts, count, in_flight);
  printf("libcurl %.1f us of CPU each\n", (cpu() - used) * 1e6 / count);
  if (bad) fprintf(stderr, "%d posts were not taken\n", bad);
  return bad ? 1 : 0;
}
