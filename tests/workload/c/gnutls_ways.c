/* All ways by which bytes pass through GnuTLS, each on a connection of its own, both ends in this process:
 *
 *     gnutls_ways LIBGNUTLS CERTIFICATE KEY WAY...
 *
 * plain    gnutls_record_send and gnutls_record_recv
 * tls12    the same in TLS 1.2
 * seq      gnutls_record_send2 with padding, gnutls_record_recv_seq
 * cork     gnutls_record_cork, several sends, gnutls_record_uncork with GNUTLS_RECORD_WAIT
 * partial  the same without waiting, on a socket that is full again and again
 * again    gnutls_record_send on such a socket: after GNUTLS_E_AGAIN the buffer is cleared, and (NULL, 0) goes on
 * same     the same, but goes on with the same arguments
 * range    gnutls_record_send_range
 * file     gnutls_record_send_file (GnuTLS 3.6.15)
 * early    early data of a resumed session, then the rest
 * update   a key update of each end before each message
 * renew    another handshake before each message (TLS 1.2)
 * beat     heartbeats between messages (TLS 1.2)
 * packet   gnutls_record_recv_packet
 * dtls     DTLS 1.2
 *
 * The client and the server each write messages, which tests/live/test_gnutls.py knows. The library is opened by its
 * path: so one program serves for all versions.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <gnutls/dtls.h>
#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LARGEST (3 << 20)
#define EARLY "early: "

static void *library;

static void *function(const char *name)
{
	return dlsym(library, name);
}

/* A function of the library, of the type that its header declares. */
#define LIB(name) ((__typeof__(&name))function(#name))

static void check(long is_well, const char *what)
{
	if (is_well)
		return;
	fprintf(stderr, "%s failed\n", what);
	exit(1);
}

static long must(long result, const char *what)
{
	if (result < 0)
		fprintf(stderr, "%s: %s\n", what, LIB(gnutls_strerror)(result));
	check(result >= 0, what);
	return result;
}

struct end {
	const char *name;
	gnutls_session_t session;
	int fd;
};

static const char *way;
static gnutls_certificate_credentials_t credentials;
static gnutls_datum_t ticket_key, ticket;
static gnutls_anti_replay_t replay;
static char sent[LARGEST], got[LARGEST];

/* What a server remembers of early data: here nothing, as each ticket is used once. */
static int remember(void *argument, time_t expires, const gnutls_datum_t *key, const gnutls_datum_t *data)
{
	(void)argument, (void)expires, (void)key, (void)data;
	return 0;
}

static int is(const char *name)
{
	return !strcmp(way, name);
}

static int is_retry(long result)
{
	return result == GNUTLS_E_AGAIN || result == GNUTLS_E_INTERRUPTED;
}

static int is_datagram(void)
{
	return is("dtls");
}

static const char *priority(void)
{
	if (is("tls12") || is("renew") || is("beat"))
		return "NORMAL:-VERS-ALL:+VERS-TLS1.2";
	return is_datagram() ? "NORMAL:-VERS-ALL:+VERS-DTLS1.2" : "NORMAL";
}

static void prepare(struct end *end, unsigned flags, const char *host)
{
	flags |= is_datagram() ? GNUTLS_DATAGRAM : 0;
	flags |= is("early") ? GNUTLS_ENABLE_EARLY_DATA : 0;
	must(LIB(gnutls_init)(&end->session, flags), "gnutls_init");
	must(LIB(gnutls_priority_set_direct)(end->session, priority(), NULL), "gnutls_priority_set_direct");
	must(LIB(gnutls_credentials_set)(end->session, GNUTLS_CRD_CERTIFICATE, credentials), "credentials");
	if (host)
		must(LIB(gnutls_server_name_set)(end->session, GNUTLS_NAME_DNS, host, strlen(host)), "the name");
	else if (is("early")) {
		must(LIB(gnutls_session_ticket_enable_server)(end->session, &ticket_key), "tickets");
		must(LIB(gnutls_record_set_max_early_data_size)(end->session, 1 << 16), "early data");
		LIB(gnutls_anti_replay_enable)(end->session, replay);
	}
	if (is_datagram())
		LIB(gnutls_dtls_set_mtu)(end->session, 8000);
	if (is("beat"))
		LIB(gnutls_heartbeat_enable)(end->session, GNUTLS_HB_PEER_ALLOWED_TO_SEND);
	LIB(gnutls_transport_set_int2)(end->session, end->fd, end->fd);
}

/* Do a handshake of both ends, which do not block. */
static void shake_hands(struct end *client, struct end *server)
{
	struct end *ends[] = {client, server};
	int is_done[2] = {0};
	while (!is_done[0] || !is_done[1]) {
		for (int each = 0; each < 2; each++) {
			if (is_done[each])
				continue;
			int result = LIB(gnutls_handshake)(ends[each]->session);
			is_done[each] = result == GNUTLS_E_SUCCESS;
			if (result < 0 && LIB(gnutls_error_is_fatal)(result))
				must(result, "gnutls_handshake");
		}
	}
}

/* The number-th message of an end. */
static void make(char *message, const char *prefix, const char *name, int number, size_t size)
{
	char words[64];
	size_t length = snprintf(words, sizeof(words), "%s%s %s %d ", prefix, way, name, number);
	for (size_t at = 0; at < size; at++)
		message[at] = words[at % length];
}

/* Receive what is there. */
static size_t receive(struct end *end, char *data, size_t size)
{
	unsigned char sequence[8];
	long result;
	if (is("packet")) {
		gnutls_packet_t packet;
		gnutls_datum_t datum;
		result = LIB(gnutls_record_recv_packet)(end->session, &packet);
		if (result > 0) {
			LIB(gnutls_packet_get)(packet, &datum, NULL);
			check(datum.size == result && datum.size <= size, "gnutls_packet_get");
			memcpy(data, datum.data, datum.size);
			LIB(gnutls_packet_deinit)(packet);
		}
	} else if (is("seq"))
		result = LIB(gnutls_record_recv_seq)(end->session, data, size, sequence);
	else
		result = LIB(gnutls_record_recv)(end->session, data, size);
	if (result == GNUTLS_E_HEARTBEAT_PING_RECEIVED) {
		must(LIB(gnutls_heartbeat_pong)(end->session, 0), "gnutls_heartbeat_pong");
		return 0;
	}
	return is_retry(result) || result == GNUTLS_E_HEARTBEAT_PONG_RECEIVED ? 0 : must(result, "a receive");
}

static long send_some(struct end *end, const char *data, size_t size)
{
	if (is("seq"))
		return LIB(gnutls_record_send2)(end->session, data, size, size < 1000 ? 100 : 0, 0);
	if (is("range")) {
		gnutls_range_st range = {size, size + 200};
		return LIB(gnutls_record_send_range)(end->session, data, size, &range);
	}
	return LIB(gnutls_record_send)(end->session, data, size);
}

static void send_file(struct end *end, const char *data, size_t size)
{
	FILE *file = tmpfile();
	off_t offset = 0;
	check(fwrite(data, 1, size, file) == size && !fseek(file, 0, SEEK_SET), "a file");
	typedef ssize_t send_file_t(gnutls_session_t, int, off_t *, size_t);
	long result = ((send_file_t *)function("gnutls_record_send_file"))(end->session, fileno(file), &offset, size);
	check(result == (long)size, "gnutls_record_send_file");
	fclose(file);
}

/* Send a message, with what the peer receives meanwhile. Returns how many bytes it has received. */
static size_t send_all(struct end *from, struct end *to, const char *data, size_t size)
{
	size_t done = 0, have = 0;
	if (is("cork") || is("partial")) {
		LIB(gnutls_record_cork)(from->session);
		for (size_t part; done < size; done += part) {
			part = size - done < 20000 ? size - done : 20000;
			check(LIB(gnutls_record_send)(from->session, data + done, part) == (long)part, "a corked send");
		}
		for (long result = -1; result < 0;) {
			result = LIB(gnutls_record_uncork)(from->session, is("cork") ? GNUTLS_RECORD_WAIT : 0);
			if (!is_retry(result))
				must(result, "gnutls_record_uncork");
			have += receive(to, got + have, sizeof(got) - have);
		}
		return have;
	}
	if (is("file")) {
		send_file(from, data, size);
		return 0;
	}
	while (done < size) {
		size_t most = is_datagram() && size - done > 1000 ? 1000 : size - done;
		static char buffer[LARGEST];
		memcpy(buffer, data + done, most);
		long result = send_some(from, buffer, most);
		while (is_retry(result)) {
			if (is("again"))
				memset(buffer, '!', most);
			have += receive(to, got + have, sizeof(got) - have);
			result = is("again") ? send_some(from, NULL, 0) : send_some(from, buffer, most);
		}
		done += must(result, "a send");
	}
	return have;
}

static void pass(struct end *from, struct end *to, int number, size_t size)
{
	make(sent, "", from->name, number, size);
	if (is("update") && number < 3) /* GnuTLS allows 8 in a second */
		must(LIB(gnutls_session_key_update)(from->session, *from->name == 'c' ? GNUTLS_KU_PEER : 0), "an update");
	if (is("beat"))
		must(LIB(gnutls_heartbeat_ping)(from->session, 100, 1, 0), "gnutls_heartbeat_ping");
	size_t have = send_all(from, to, sent, size);
	while (have < size)
		have += receive(to, got + have, size - have);
	check(have == size && !memcmp(sent, got, size), "a message");
	if (is("beat"))
		receive(from, got, sizeof(got));
}

static void use_sockets(struct end *client, struct end *server)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in own = address;
	socklen_t length = sizeof(address);
	struct sockaddr *any = (struct sockaddr *)&address;
	int type = is_datagram() ? SOCK_DGRAM : SOCK_STREAM;
	int listening = socket(AF_INET, type, 0);
	client->fd = socket(AF_INET, type, 0);
	check(!bind(listening, any, length) && !getsockname(listening, any, &length), "bind");
	if (is_datagram()) {
		server->fd = listening;
		check(!bind(client->fd, (struct sockaddr *)&own, length), "bind");
		check(!connect(client->fd, any, length) && !getsockname(client->fd, any, &length), "connect");
		check(!connect(server->fd, any, length), "connect");
	} else {
		check(!listen(listening, 1) && !connect(client->fd, any, length), "connect");
		server->fd = accept(listening, NULL, NULL);
		check(server->fd >= 0, "accept");
		close(listening);
	}
	if (is("partial") || is("again") || is("same")) {
		int least = 1;
		setsockopt(client->fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof(least));
		setsockopt(server->fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof(least));
	}
	fcntl(client->fd, F_SETFL, O_NONBLOCK);
	fcntl(server->fd, F_SETFL, O_NONBLOCK);
}

static const size_t sizes[] = {1, 100, 5000, 16384, 40000, LARGEST};

static size_t count_of_sizes(void)
{
	size_t all = sizeof(sizes) / sizeof(*sizes);
	return is("plain") || is("partial") || is("again") ? all : all - 1;
}

static void close_end(struct end *end)
{
	LIB(gnutls_bye)(end->session, GNUTLS_SHUT_WR);
	LIB(gnutls_deinit)(end->session);
	close(end->fd);
}

static void run(int resumed)
{
	struct end client = {.name = "client"}, server = {.name = "server"};
	char early[20000];
	use_sockets(&client, &server);
	prepare(&client, GNUTLS_CLIENT | GNUTLS_NONBLOCK, "example.org");
	prepare(&server, GNUTLS_SERVER | GNUTLS_NONBLOCK, NULL);
	if (resumed) {
		must(LIB(gnutls_session_set_data)(client.session, ticket.data, ticket.size), "the ticket");
		make(early, EARLY, client.name, 0, sizeof(early));
		must(LIB(gnutls_record_send_early_data)(client.session, early, 5000), "early data");
		must(LIB(gnutls_record_send_early_data)(client.session, early + 5000, 7000), "early data");
	}
	shake_hands(&client, &server);
	if (resumed) {
		size_t have = 0;
		for (long result; (result = LIB(gnutls_record_recv_early_data)(server.session, got + have, 999)) > 0;)
			have += result;
		check(have == 12000 && !memcmp(got, early, have), "early data received");
	}
	for (size_t number = 0; number < count_of_sizes(); number++) {
		if (is("renew") && number) {
			must(LIB(gnutls_rehandshake)(server.session), "gnutls_rehandshake");
			long result;
			do
				result = LIB(gnutls_record_recv)(client.session, got, 1);
			while (is_retry(result));
			check(result == GNUTLS_E_REHANDSHAKE, "a request");
			shake_hands(&client, &server);
		}
		pass(&client, &server, number, sizes[number]);
		pass(&server, &client, number, sizes[number]);
	}
	if (is("early") && !resumed)
		must(LIB(gnutls_session_get_data2)(client.session, &ticket), "gnutls_session_get_data2");
	close_end(&client);
	close_end(&server);
}

int main(int argc, char **argv)
{
	check(argc > 4, "the arguments");
	library = dlopen(argv[1], RTLD_NOW);
	check(!!library, "dlopen");
	must(LIB(gnutls_certificate_allocate_credentials)(&credentials), "credentials");
	must(LIB(gnutls_certificate_set_x509_key_file)(credentials, argv[2], argv[3], GNUTLS_X509_FMT_PEM), "the key");
	must(LIB(gnutls_session_ticket_key_generate)(&ticket_key), "gnutls_session_ticket_key_generate");
	must(LIB(gnutls_anti_replay_init)(&replay), "gnutls_anti_replay_init");
	LIB(gnutls_anti_replay_set_add_function)(replay, remember);
	for (int each = 4; each < argc; each++) {
		way = argv[each];
		run(0);
		if (is("early"))
			run(1);
	}
	return 0;
}
