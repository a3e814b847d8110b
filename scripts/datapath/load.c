/* Load for bench_datapath.py: connections one after the other, or one stream, and the servers for both.
 *
 *   load serve ACCEPT-PORT SINK-PORT     answers each connection to the first with a byte, reads all of the second
 *   load connect ADDRESS PORT SECONDS    prints: connections a second, and p50 and p99 of one in microseconds
 *   load stream ADDRESS PORT SECONDS     prints: megabits a second
 *
 * In C, since an interpreter spends more on a connection than 10,000 rules do.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HELD 64
#define MOST 4000000
#define PIECE (1 << 18)

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static int listening(int port) {
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&any, sizeof any) || listen(fd, 4096)) fail("listen");
    return fd;
}

static void serve(int accepting, int sinking) {
    static char piece[PIECE];
    struct pollfd ready[3] = {{listening(accepting), POLLIN, 0}, {listening(sinking), POLLIN, 0}, {-1, POLLIN, 0}};
    int held[HELD], place = 0;
    memset(held, -1, sizeof held);
    puts("ready");
    fflush(stdout);
    for (;;) {
        if (poll(ready, 3, -1) < 0) fail("poll");
        if (ready[0].revents) {
            int fd = accept(ready[0].fd, NULL, NULL);
            if (fd >= 0) {
                send(fd, "!", 1, MSG_NOSIGNAL);
                if (held[place] >= 0) close(held[place]); /* its client has long gone: no state is left behind */
                held[place] = fd;
                place = (place + 1) % HELD;
            }
        }
        if (ready[1].revents) {
            if (ready[2].fd >= 0) close(ready[2].fd);
            ready[2].fd = accept(ready[1].fd, NULL, NULL);
        }
        if (ready[2].fd >= 0 && ready[2].revents && recv(ready[2].fd, piece, sizeof piece, 0) <= 0) {
            close(ready[2].fd);
            ready[2].fd = -1;
        }
    }
}

static int order(const void *one, const void *other) {
    float difference = *(const float *)one - *(const float *)other;
    return difference < 0 ? -1 : difference > 0;
}

static int called(const struct sockaddr_in *to) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0) fail("socket");
    if (connect(fd, (const struct sockaddr *)to, sizeof *to)) fail("connect");
    return fd;
}

static void connections(const struct sockaddr_in *to, double seconds) {
    struct linger reset = {1, 0};
    float *took = malloc(MOST * sizeof *took);
    double start = now(), end = start + seconds, begin = start;
    long count = 0;
    while (begin < end && count < MOST) {
        char byte;
        int fd = called(to);
        if (recv(fd, &byte, 1, 0) != 1) fail("answer");
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        close(fd);
        double done = now();
        took[count++] = (done - begin) * 1e6;
        begin = done;
    }
    qsort(took, count, sizeof *took, order);
    printf("%.1f %.1f %.1f\n", count / (begin - start), took[count / 2], took[count * 99 / 100]);
}

static void stream(const struct sockaddr_in *to, double seconds) {
    static char piece[PIECE];
    int fd = called(to);
    double start = now(), end = start + seconds, sent = 0;
    while (now() < end) {
        ssize_t more = send(fd, piece, sizeof piece, MSG_NOSIGNAL);
        if (more < 0) fail("send");
        sent += more;
    }
    printf("%.1f\n", sent * 8 / 1e6 / (now() - start));
}

int main(int count, char **words) {
    struct sockaddr_in to = {.sin_family = AF_INET};
    if (count == 4 && !strcmp(words[1], "serve")) serve(atoi(words[2]), atoi(words[3]));
    if (count != 5 || inet_pton(AF_INET, words[2], &to.sin_addr) != 1) {
        fprintf(stderr, "usage: load serve PORT PORT | load connect|stream ADDRESS PORT SECONDS\n");
        return 2;
    }
    to.sin_port = htons(atoi(words[3]));
    if (!strcmp(words[1], "connect")) connections(&to, atof(words[4]));
    else stream(&to, atof(words[4]));
    return 0;
}
