/*
 * The benchmarks' floor: two processes, one request and one reply over a unix
 * socket pair, nothing else. What an NRI event costs above this is protocol.
 *
 * One line on stdin is one round: REQUEST_BYTES REPLY_BYTES EVENTS IDLE_US
 * One line on stdout answers it: {"ns":[...],"wall_ns":N,"cpu_ns":N,"peer_cpu_ns":N}
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct header { /* the first bytes of a request */
	uint64_t request_bytes;
	uint64_t reply_bytes;
};

static int64_t now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void fail(const char *what)
{
	fprintf(stderr, "pp: %s: %s\n", what, strerror(errno));
	_exit(1);
}

/* 0: the other side is gone */
static int receive(int fd, char *buffer, size_t size)
{
	while (size > 0) {
		ssize_t n = recv(fd, buffer, size, 0);

		if (n <= 0)
			return 0;
		buffer += n;
		size -= (size_t)n;
	}
	return 1;
}

static void transmit(int fd, const char *buffer, size_t size)
{
	while (size > 0) {
		ssize_t n = send(fd, buffer, size, MSG_NOSIGNAL);

		if (n <= 0)
			fail("send");
		buffer += n;
		size -= (size_t)n;
	}
}

static char *grown(char *buffer, size_t *have, size_t want)
{
	if (want > *have) {
		buffer = realloc(buffer, want);
		if (!buffer)
			fail("memory");
		memset(buffer + *have, 'x', want - *have);
		*have = want;
	}
	return buffer;
}

/*
 * The replying side. A reply of 8 bytes or more begins with the CPU time of
 * this process, so that the asking side can report it.
 */
static void serve(int fd)
{
	size_t have = 0;
	char *buffer = grown(NULL, &have, 1 << 16);

	for (;;) {
		/* One receive takes a whole small message, as a good peer does. */
		ssize_t n = recv(fd, buffer, have, 0);
		struct header head;
		int64_t cpu;

		if (n <= 0)
			_exit(0);
		while ((size_t)n < sizeof(head)) {
			if (!receive(fd, buffer + n, 1))
				_exit(0);
			n++;
		}
		memcpy(&head, buffer, sizeof(head));
		buffer = grown(buffer, &have, head.request_bytes > head.reply_bytes ? head.request_bytes : head.reply_bytes);
		if ((size_t)n < head.request_bytes &&
		    !receive(fd, buffer + n, head.request_bytes - (size_t)n))
			_exit(0);
		if (head.reply_bytes >= sizeof(cpu) && head.request_bytes == sizeof(head)) {
			cpu = now(CLOCK_PROCESS_CPUTIME_ID);
			memcpy(buffer, &cpu, sizeof(cpu));
		}
		transmit(fd, buffer, head.reply_bytes);
	}
}

static int64_t peer_cpu(int fd)
{
	struct header head = {sizeof(head), sizeof(int64_t)};
	int64_t cpu;

	transmit(fd, (char *)&head, sizeof(head));
	if (!receive(fd, (char *)&cpu, sizeof(cpu)))
		fail("peer");
	return cpu;
}

static void round_trips(int fd, struct header head, long events, long idle_us)
{
	static char *request, *reply;
	static size_t request_have, reply_have;
	int64_t *samples = malloc((size_t)events * sizeof(*samples));
	int64_t wall, cpu, other;

	if (!samples)
		fail("memory");
	request = grown(request, &request_have, head.request_bytes);
	reply = grown(reply, &reply_have, head.reply_bytes);
	memcpy(request, &head, sizeof(head));
	other = peer_cpu(fd);
	cpu = now(CLOCK_PROCESS_CPUTIME_ID);
	wall = now(CLOCK_MONOTONIC);
	for (long i = 0; i < events; i++) {
		int64_t began;

		if (idle_us > 0)
			usleep((useconds_t)idle_us);
		began = now(CLOCK_MONOTONIC);
		transmit(fd, request, head.request_bytes);
		if (!receive(fd, reply, head.reply_bytes))
			fail("peer");
		samples[i] = now(CLOCK_MONOTONIC) - began;
	}
	wall = now(CLOCK_MONOTONIC) - wall;
	cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	other = peer_cpu(fd) - other;
	printf("{\"ns\":[");
	for (long i = 0; i < events; i++)
		printf("%s%lld", i ? "," : "", (long long)samples[i]);
	printf("],\"wall_ns\":%lld,\"cpu_ns\":%lld,\"peer_cpu_ns\":%lld}\n",
	       (long long)wall, (long long)cpu, (long long)other);
	fflush(stdout);
	free(samples);
}

int main(void)
{
	int pair[2];
	unsigned long request_bytes, reply_bytes;
	long events, idle_us;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		fail("socketpair");
	child = fork();
	if (child < 0)
		fail("fork");
	if (child == 0) {
		close(pair[0]);
		serve(pair[1]);
	}
	close(pair[1]);
	while (scanf("%lu %lu %ld %ld", &request_bytes, &reply_bytes, &events, &idle_us) == 4) {
		struct header head = {request_bytes, reply_bytes};

		if (request_bytes <= sizeof(head) || reply_bytes < 1 || events < 1 || idle_us < 0) {
			fprintf(stderr, "pp: a request has more than %zu bytes, a reply and a round at least 1\n", sizeof(head));
			return 2;
		}
		round_trips(pair[0], head, events, idle_us);
	}
	close(pair[0]);
	waitpid(child, NULL, 0);
	return 0;
}
