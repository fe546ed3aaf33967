/* HTTP/1.1 over any TLS library (end.h):
 *
 *     https server LIBRARY WAY CERTIFICATE KEY                      prints its port, then serves until it is ended
 *     https client LIBRARY WAY TRUSTED PORT FOLDER CONNECTIONS SIZE...
 *
 * GET /bytes/N answers N bytes, anything else the request's body; each with the request's x-nonce. The client makes a GET
 * and a POST of each size on each connection, one after the other. It sends FOLDER/SIZE, and stores what it gets in
 * FOLDER/NONCE.got. It prints for each request: nonce, method, target, its own port.
 *
 * WAY may end with "-again": the socket does not block and has a small buffer, so that calls are repeated.
 */
#include "end.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD_BYTES 4096
#define SMALL_BUFFER 4608
#define AGAIN "-again"

static int is_repeated;

struct connection {
	void *end;
	int fd;
	char head[HEAD_BYTES + 1];
	size_t have; /* bytes in `head`, perhaps beyond the head */
};

struct message {
	char start[256]; /* the first line */
	char nonce[64];
	size_t size;
	char *body;
};

void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void wait_for(const struct connection *connection, short events)
{
	struct pollfd waiting = {.fd = connection->fd, .events = events};
	poll(&waiting, 1, 1000);
}

static int write_all(struct connection *connection, const char *data, size_t size)
{
	while (size) {
		long done = end_write(connection->end, data, size);
		if (done < 0)
			return 0;
		if (!done)
			wait_for(connection, POLLOUT);
		data += done;
		size -= done;
	}
	return 1;
}

/* Read some bytes; 0: there are no more. */
static size_t read_some(struct connection *connection, char *data, size_t size)
{
	for (;;) {
		long done = end_read(connection->end, data, size);
		if (done)
			return done < 0 ? 0 : done;
		wait_for(connection, POLLIN);
	}
}

static const char *field(const char *head, const char *name)
{
	for (const char *line = head; (line = strstr(line, "\r\n")); line += 2)
		if (!strncasecmp(line + 2, name, strlen(name)))
			return line + 2 + strlen(name);
	return "";
}

/* Read a request or an answer; 0: there is none. */
static int read_message(struct connection *connection, struct message *message)
{
	char *end;
	connection->head[connection->have] = 0;
	while (!(end = strstr(connection->head, "\r\n\r\n"))) {
		size_t more = read_some(connection, connection->head + connection->have, HEAD_BYTES - connection->have);
		if (!more)
			return 0;
		connection->have += more;
		connection->head[connection->have] = 0;
	}
	*end = 0;
	end += 4;
	sscanf(connection->head, "%255[^\r]", message->start);
	*message->nonce = 0;
	sscanf(field(connection->head, "x-nonce:"), "%63s", message->nonce);
	message->size = strtoul(field(connection->head, "content-length:"), 0, 10);
	message->body = malloc(message->size + 1);
	size_t have = connection->head + connection->have - end;
	if (have > message->size)
		have = message->size;
	memcpy(message->body, end, have);
	connection->have -= end + have - connection->head;
	memmove(connection->head, end + have, connection->have);
	while (have < message->size) {
		size_t more = read_some(connection, message->body + have, message->size - have);
		if (!more)
			return 0;
		have += more;
	}
	return 1;
}

/* Write a head and a body: as one, so that calls with several buffers have both. */
static int write_message(struct connection *connection, const char *start, const char *nonce, const char *body,
			 size_t size)
{
	char *whole = malloc(HEAD_BYTES + size);
	size_t head = snprintf(whole, HEAD_BYTES, "%s\r\nHost: localhost\r\nX-Nonce: %s\r\nContent-Length: %zu\r\n\r\n",
			       start, nonce, size);
	memcpy(whole + head, body, size);
	int done = write_all(connection, whole, head + size);
	free(whole);
	return done;
}

static void open_end(struct connection *connection)
{
	int bytes = SMALL_BUFFER;
	if (is_repeated && setsockopt(connection->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)))
		fail("setsockopt");
	connection->end = end_open(connection->fd);
	if (is_repeated)
		fcntl(connection->fd, F_SETFL, O_NONBLOCK);
}

static void *serve(void *argument)
{
	struct connection *connection = argument;
	struct message request;
	open_end(connection);
	while (read_message(connection, &request)) {
		size_t size;
		if (sscanf(request.start, "GET /bytes/%zu", &size) == 1) {
			request.body = realloc(request.body, size + 1);
			for (request.size = 0; request.size < size; request.size++)
				request.body[request.size] = (char)(request.size * 2654435761u >> 24);
		}
		int done = write_message(connection, "HTTP/1.1 200 OK", request.nonce, request.body, request.size);
		free(request.body);
		if (!done)
			break;
	}
	end_close(connection->end);
	close(connection->fd);
	free(connection);
	return 0;
}

static void run_server(void)
{
	struct sockaddr_in own = {.sin_family = AF_INET};
	socklen_t size = sizeof(own);
	own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(listener, (struct sockaddr *)&own, size) || listen(listener, 16) ||
	    getsockname(listener, (struct sockaddr *)&own, &size))
		fail("listen");
	printf("%d\n", ntohs(own.sin_port));
	fflush(stdout);
	for (;;) {
		struct connection *connection = calloc(1, sizeof(*connection));
		pthread_t thread;
		connection->fd = accept(listener, 0, 0);
		if (connection->fd < 0 || pthread_create(&thread, 0, serve, connection))
			fail("accept");
		pthread_detach(thread);
	}
}

static char *read_file(const char *folder, const char *name, size_t *size)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	FILE *file = fopen(path, "rb");
	if (!file)
		fail(path);
	*size = strtoul(name, 0, 10);
	char *data = malloc(*size + 1);
	if (fread(data, 1, *size, file) != *size)
		fail(path);
	fclose(file);
	return data;
}

static void write_file(const char *folder, const char *nonce, const char *data, size_t size)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/%s.got", folder, nonce);
	FILE *file = fopen(path, "wb");
	if (!file || fwrite(data, 1, size, file) != size || fclose(file))
		fail(path);
}

static void ask(struct connection *connection, const char *method, const char *target, const char *folder,
		const char *body, size_t size)
{
	static int number;
	char start[256], nonce[64];
	struct message answer;
	struct sockaddr_in local;
	socklen_t length = sizeof(local);
	snprintf(start, sizeof(start), "%s %s HTTP/1.1", method, target);
	snprintf(nonce, sizeof(nonce), "%d-%d", getpid(), number++);
	if (!write_message(connection, start, nonce, body, size) || !read_message(connection, &answer))
		fail(start);
	write_file(folder, nonce, answer.body, answer.size);
	free(answer.body);
	if (getsockname(connection->fd, (struct sockaddr *)&local, &length))
		fail("getsockname");
	printf("%s %s %s %d\n", nonce, method, target, ntohs(local.sin_port));
}

static int run_client(int port, const char *folder, int connections, char **sizes)
{
	struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons(port)};
	server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	while (connections--) {
		struct connection connection = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
		if (connect(connection.fd, (struct sockaddr *)&server, sizeof(server)))
			fail("connect");
		open_end(&connection);
		for (char **each = sizes; *each; each++) {
			char target[64];
			size_t size;
			char *body = read_file(folder, *each, &size);
			snprintf(target, sizeof(target), "/bytes/%s", *each);
			ask(&connection, "GET", target, folder, "", 0);
			ask(&connection, "POST", is_repeated ? "/slow" : "/echo", folder, body, size);
			free(body);
		}
		end_close(connection.end);
		close(connection.fd);
	}
	return 0;
}

int main(int count, char **arguments)
{
	int is_server = count > 1 && is(arguments[1], "server");
	if (count < (is_server ? 6 : 9))
		fail("see https.c");
	signal(SIGPIPE, SIG_IGN);
	char *way = strdup(arguments[3]);
	char *again = strstr(way, AGAIN);
	if (again) {
		is_repeated = 1;
		*again = 0;
	}
	struct setup setup = {arguments[2], way, arguments[4], is_server ? arguments[5] : 0};
	end_setup(&setup);
	if (is_server)
		run_server();
	return run_client(atoi(arguments[5]), arguments[6], atoi(arguments[7]), arguments + 8);
}
