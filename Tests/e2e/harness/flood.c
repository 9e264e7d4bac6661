/* Requests at an even rate, over connections that are kept, each with the next line of a file as its Authorization.
   flood PORT RATE SECONDS CONNECTIONS TARGET FILE; prints a line for each status with how many had it, and `unanswered N`. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct connection {
    int socket;
    size_t have;
    char answer[16384];
};

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static int connected(int port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1, made = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(made, (struct sockaddr *)&address, sizeof address)) exit(3);
    setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return made;
}

static char **requests(const char *file, const char *target, size_t *count) {
    char **made = NULL, *line = NULL;
    size_t room = 0, size = 0;
    FILE *lines = fopen(file, "r");
    if (!lines) exit(3);
    for (ssize_t length; (length = getline(&line, &size, lines)) > 0; (*count)++) {
        line[strcspn(line, "\n")] = 0;
        if (*count == room) made = realloc(made, (room = room ? 2 * room : 1024) * sizeof *made);
        if (asprintf(&made[*count], "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: %s\r\n\r\n", target, line) < 0)
            exit(3);
    }
    return made;
}

/* The status of an answer that is all there; 0 before. */
static int status(struct connection *of) {
    of->answer[of->have] = 0;
    char *end = strstr(of->answer, "\r\n\r\n"), *length = strcasestr(of->answer, "\r\ncontent-length:");
    if (!end) return 0;
    size_t body = length && length < end ? strtoul(length + 17, NULL, 10) : 0;
    return of->have < (size_t)(end + 4 - of->answer) + body ? 0 : atoi(of->answer + 9);
}

int main(int count, char **arguments) {
    if (count != 7) return 2;
    int port = atoi(arguments[1]), width = atoi(arguments[4]);
    double rate = atof(arguments[2]), seconds = atof(arguments[3]);
    size_t lines = 0, next = 0, taken = 0, given = width;
    char **lists = requests(arguments[6], arguments[5], &lines);
    struct connection *all = calloc(width, sizeof *all);
    /* In turn: who is left alone for long is closed. */
    int *idle = malloc(width * sizeof *idle), poll = epoll_create1(0);
    for (int each = 0; each < width; each++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = each};
        all[idle[each] = each].socket = connected(port);
        epoll_ctl(poll, EPOLL_CTL_ADD, all[each].socket, &event);
    }
    long sent = 0, answered = 0, statuses[1000] = {0};
    double begin = now(), time;
    while ((time = now() - begin) < seconds || (answered < sent && time < seconds + 5)) {
        while (time < seconds && taken < given && sent < time * rate) {
            char *request = lists[next++ % lines];
            struct connection *to = &all[idle[taken++ % width]];
            to->have = 0;
            if (send(to->socket, request, strlen(request), MSG_NOSIGNAL) != (ssize_t)strlen(request)) return 3;
            sent++;
        }
        struct epoll_event events[64];
        int ready = epoll_wait(poll, events, 64, 1);
        for (int each = 0; each < ready; each++) {
            struct connection *of = &all[events[each].data.u32];
            ssize_t more = recv(of->socket, of->answer + of->have, sizeof of->answer - 1 - of->have, 0);
            if (more <= 0) return 4;
            of->have += more;
            int said = status(of);
            if (!said) continue;
            statuses[said % 1000]++;
            answered++;
            idle[given++ % width] = events[each].data.u32;
        }
    }
    for (int each = 0; each < 1000; each++)
        if (statuses[each]) printf("%d %ld\n", each, statuses[each]);
    printf("unanswered %ld\n", sent - answered);
}
