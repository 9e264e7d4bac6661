/* What libcurl's multi interface costs by itself: POSTs to one URL, a fixed number in flight, handles and connections
   reused. curl_floor URL POSTS IN_FLIGHT; prints the microseconds of CPU per post, and how many were not answered 2xx. */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static const char body[] =
    "{\"type\":\"config.stale\",\"timestamp\":\"2026-01-01T00:00:00.000000Z\",\"data\":{\"CONFIG_STATE\":\"STALE\","
    "\"topic\":\"PUSH_RC\",\"project\":\"demo\",\"namespace\":\"firebase\",\"versionNumber\":\"42\"}}";

static size_t ignore(char *bytes, size_t size, size_t count, void *context) { return size * count; }

static CURL *poster(const char *url, struct curl_slist *headers) {
    CURL *easy = curl_easy_init();
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, ignore);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    return easy;
}

static double cpu(void) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return use.ru_utime.tv_sec + use.ru_stime.tv_sec + (use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

int main(int count, char **arguments) {
    if (count != 4) return 2;
    int posts = atoi(arguments[2]), width = atoi(arguments[3]), started = 0, done = 0, bad = 0, running, left;
    curl_global_init(CURL_GLOBAL_ALL);
    CURLM *multi = curl_multi_init();
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)width);
    struct curl_slist *headers = curl_slist_append(NULL, "content-type: application/json");
    headers = curl_slist_append(headers, "Expect:");
    headers = curl_slist_append(headers, "webhook-id: msg_abcdefghijklmnopqrstuvwxyz234567");
    headers = curl_slist_append(headers, "webhook-timestamp: 1790000000");
    headers = curl_slist_append(headers, "webhook-signature: v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    double begin = cpu();
    for (; started < width && started < posts; started++) curl_multi_add_handle(multi, poster(arguments[1], headers));
    while (done < posts) {
        curl_multi_perform(multi, &running);
        for (CURLMsg *message; (message = curl_multi_info_read(multi, &left));) {
            CURL *easy = message->easy_handle;
            long status = 0;
            curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
            bad += message->data.result != CURLE_OK || status / 100 != 2;
            done++;
            curl_multi_remove_handle(multi, easy);
            if (started++ < posts) curl_multi_add_handle(multi, easy);
        }
        if (done < posts) curl_multi_poll(multi, NULL, 0, 1000, NULL);
    }
    printf("%.3f %d\n", (cpu() - begin) * 1e6 / posts, bad);
    return 0;
}
