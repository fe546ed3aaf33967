/* A client and a server with NSS, which write and read in each way that NSPR has:
 *
 *     nss_peer client WAY PORT SIZE NONCE...
 *     nss_peer server WAY CERTIFICATE KEY
 *
 * WAY:
 * read      PR_Write and PR_Read
 * send      PR_Send and PR_Recv
 * peek      the same, but PR_Recv with PR_MSG_PEEK looks three times first
 * vector    PR_Writev of many pieces, also empty ones, and PR_Read
 * bytes     PR_Write and PR_Read of one byte at a time
 * waiting   PR_Send and PR_Recv of a small non-blocking socket, until they would block
 * layer     as read; another layer is pushed on the one of TLS
 * later     as read; the layer passes plaintext to a proxy before it uses TLS (client)
 * early     as read; TLS 1.3 with data before the handshake is done (server)
 *
 * The client posts a body of SIZE bytes to /echo, or to /slow, for each NONCE on one connection, whose local port it
 * prints. The server prints its port, and sends the body of each request back. Both first pass requests through a file,
 * a pipe and plain sockets, with the same functions of NSPR. CERTIFICATE and KEY are files in the form DER, the key in
 * PKCS #8.
 */
#include <cert.h>
#include <keyhi.h>
#include <nspr.h>
#include <nss.h>
#include <pk11pub.h>
#include <secerr.h>
#include <ssl.h>
#include <sslexp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD_BYTES 1024
#define SMALL_BUFFER 4608
#define MOST_BODY (8 << 20)
#define PIECES 16
#define WINDOW (20 * PR_USEC_PER_SEC)

static const char *way;

static int is(const char *name)
{
	return !strcmp(way, name);
}

static void fail(const char *what)
{
	fprintf(stderr, "%s: error %d\n", what, PR_GetError());
	exit(1);
}

static void *must(void *made, const char *what)
{
	if (!made)
		fail(what);
	return made;
}

static void succeed(int result, const char *what)
{
	if (result)
		fail(what);
}

static void wait_for(PRFileDesc *fd, int events)
{
	PRPollDesc waiting = {.fd = fd, .in_flags = events};
	if (PR_GetError() != PR_WOULD_BLOCK_ERROR || PR_Poll(&waiting, 1, PR_INTERVAL_NO_TIMEOUT) < 0)
		fail("cannot wait");
}

static int write_pieces(PRFileDesc *fd, const char *data, int size)
{
	PRIOVec pieces[PIECES];
	int each = size / PIECES / 2, done = 0;
	for (int i = 0; i < PIECES; i++) {
		int some = i % 5 == 3 ? 0 : i == PIECES - 1 ? size - done : each * (i % 2 ? 1 : 3) / 2;
		pieces[i] = (PRIOVec){.iov_base = (char *)data + done, .iov_len = some};
		done += some;
	}
	return PR_Writev(fd, pieces, PIECES, PR_INTERVAL_NO_TIMEOUT);
}

static int write_some(PRFileDesc *fd, const char *data, int size)
{
	if (is("vector"))
		return write_pieces(fd, data, size);
	if (is("bytes"))
		return PR_Write(fd, data, 1);
	if (is("send") || is("peek") || is("waiting"))
		return PR_Send(fd, data, size, 0, PR_INTERVAL_NO_TIMEOUT);
	return PR_Write(fd, data, size);
}

static void write_all(PRFileDesc *fd, const char *data, int size)
{
	while (size) {
		int done = write_some(fd, data, size);
		if (done < 0) {
			wait_for(fd, PR_POLL_WRITE);
			continue;
		}
		data += done;
		size -= done;
	}
}

static int read_some(PRFileDesc *fd, char *data, int size)
{
	if (is("peek"))
		for (int i = 0; i < 3; i++)
			if (PR_Recv(fd, data, size, PR_MSG_PEEK, PR_INTERVAL_NO_TIMEOUT) < 0)
				fail("PR_Recv to peek");
	if (is("send") || is("peek") || is("waiting"))
		return PR_Recv(fd, data, size, 0, PR_INTERVAL_NO_TIMEOUT);
	return PR_Read(fd, data, is("bytes") ? 1 : size);
}

/* Read up to `size` bytes; 0: the peer has closed the connection. */
static int read_part(PRFileDesc *fd, char *data, int size)
{
	int done;
	while ((done = read_some(fd, data, size)) < 0)
		wait_for(fd, PR_POLL_READ);
	return done;
}

/* Read a head, a byte at a time, so that nothing of the body is read; 0: there is none. */
static int read_head(PRFileDesc *fd, char *head)
{
	int have = 0;
	while (have < 4 || memcmp(head + have - 4, "\r\n\r\n", 4)) {
		if (have == HEAD_BYTES - 1 || !read_part(fd, head + have, 1)) {
			if (have)
				fail("a head without an end");
			return 0;
		}
		head[++have] = 0;
	}
	return have;
}

static const char *value_of(const char *head, const char *name)
{
	const char *found = strcasestr(head, name);
	return found ? found + strlen(name) : "0";
}

static void read_body(PRFileDesc *fd, char *body, int size)
{
	for (int have = 0; have < size;) {
		int done = read_part(fd, body + have, size - have);
		if (!done)
			fail("a body without an end");
		have += done;
	}
}

static void pass(PRFileDesc *from, PRFileDesc *to)
{
	static const char request[] = "GET /plain HTTP/1.1\r\nHost: localhost\r\n\r\n";
	char got[sizeof(request)];
	if (PR_Write(to, request, sizeof(request)) != sizeof(request))
		fail("cannot write plaintext");
	if (from == to)
		PR_Seek(from, 0, PR_SEEK_SET);
	if (PR_Read(from, got, sizeof(got)) != sizeof(got))
		fail("cannot read plaintext");
}

static void pass_plaintext(void)
{
	PRFileDesc *ends[2];
	PRFileDesc *file = must(PR_Open("plain", PR_RDWR | PR_CREATE_FILE | PR_TRUNCATE, 0600), "PR_Open");
	pass(file, file);
	succeed(PR_CreatePipe(&ends[0], &ends[1]), "PR_CreatePipe");
	pass(ends[0], ends[1]);
	succeed(PR_NewTCPSocketPair(ends), "PR_NewTCPSocketPair");
	pass(ends[0], ends[1]);
	if (PR_Send(ends[0], "GET /plain HTTP/1.1\r\n\r\n", 23, 0, PR_INTERVAL_NO_TIMEOUT) != 23)
		fail("PR_Send");
}

static SECStatus accept_certificate(void *unused, PRFileDesc *fd, PRBool check, PRBool is_server)
{
	return SECSuccess;
}

static void set_option(PRFileDesc *fd, PRSockOption option, int value)
{
	PRSocketOptionData data = {.option = option};
	if (option == PR_SockOpt_Nonblocking)
		data.value.non_blocking = value;
	else
		data.value.send_buffer_size = value;
	succeed(PR_SetSocketOption(fd, &data), "PR_SetSocketOption");
}

static PRFileDesc *with_layer(PRFileDesc *fd)
{
	if (is("waiting"))
		set_option(fd, PR_SockOpt_Nonblocking, 1);
	if (is("layer")) {
		PRFileDesc *layer =
		    must(PR_CreateIOLayerStub(PR_GetUniqueIdentity("own"), PR_GetDefaultIOMethods()), "a layer");
		succeed(PR_PushIOLayer(fd, PR_TOP_IO_LAYER, layer), "PR_PushIOLayer");
	}
	return fd;
}

static void pass_proxy(PRFileDesc *fd, const char *port)
{
	char head[HEAD_BYTES];
	int size = snprintf(head, sizeof(head), "CONNECT localhost:%s HTTP/1.1\r\n\r\n", port);
	write_all(fd, head, size);
	read_head(fd, head);
	if (!strstr(head, " 200 "))
		fail("the proxy");
	succeed(SSL_OptionSet(fd, SSL_SECURITY, PR_TRUE), "SSL_SECURITY");
	succeed(SSL_ResetHandshake(fd, PR_FALSE), "SSL_ResetHandshake");
}

static PRFileDesc *connected(const char *ports)
{
	PRNetAddr address;
	int port = atoi(ports), connects_first = is("send") || is("waiting");
	const char *behind = strchr(ports, ':');
	PRFileDesc *fd = must(PR_NewTCPSocket(), "PR_NewTCPSocket");
	PR_InitializeNetAddr(PR_IpAddrLoopback, port, &address);
	if (is("waiting"))
		set_option(fd, PR_SockOpt_SendBufferSize, SMALL_BUFFER);
	if (connects_first)
		succeed(PR_Connect(fd, &address, PR_INTERVAL_NO_TIMEOUT), "PR_Connect");
	fd = must(SSL_ImportFD(NULL, fd), "SSL_ImportFD");
	succeed(SSL_OptionSet(fd, SSL_SECURITY, !behind), "SSL_SECURITY");
	succeed(SSL_AuthCertificateHook(fd, accept_certificate, NULL), "SSL_AuthCertificateHook");
	succeed(SSL_SetURL(fd, "localhost"), "SSL_SetURL");
	if (connects_first)
		succeed(SSL_ResetHandshake(fd, PR_FALSE), "SSL_ResetHandshake");
	else
		succeed(PR_Connect(fd, &address, PR_INTERVAL_NO_TIMEOUT), "PR_Connect");
	if (behind)
		pass_proxy(fd, behind + 1);
	return with_layer(fd);
}

static void post(PRFileDesc *fd, const char *nonce, char *body, int size)
{
	char head[HEAD_BYTES];
	int bytes = snprintf(head, sizeof(head),
			     "POST %s HTTP/1.1\r\nHost: localhost\r\nx-nonce: %s\r\nContent-Length: %d\r\n\r\n",
			     is("waiting") ? "/slow" : "/echo", nonce, size);
	for (int i = 0; i < size; i++)
		body[i] = (char)(i * 2654435761u >> 24);
	write_all(fd, head, bytes);
	write_all(fd, body, size);
	if (!read_head(fd, head) || atoi(value_of(head, "Content-Length: ")) != size)
		fail("the answer");
	read_body(fd, body, size);
}

static void be_client(char **arguments, char *body)
{
	PRNetAddr local;
	PRFileDesc *fd = connected(arguments[0]);
	for (char **nonce = arguments + 2; *nonce; nonce++)
		post(fd, *nonce, body, atoi(arguments[1]));
	succeed(PR_GetSockName(fd, &local), "PR_GetSockName");
	printf("%d\n", PR_ntohs(local.inet.port));
	PR_Close(fd);
}

static void answer(PRFileDesc *fd, char *body)
{
	char head[HEAD_BYTES];
	while (read_head(fd, head)) {
		int size = atoi(value_of(head, "content-length: "));
		if (size > MOST_BODY)
			fail("a request that is too large");
		read_body(fd, body, size);
		char reply[HEAD_BYTES];
		int bytes = snprintf(reply, sizeof(reply), "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nx-nonce: %.24s\r\n\r\n",
				     size, value_of(head, "x-nonce: "));
		write_all(fd, reply, bytes);
		write_all(fd, body, size);
	}
}

static SECItem read_file(const char *path)
{
	static unsigned char data[2][1 << 14];
	static int next;
	FILE *file = must(fopen(path, "rb"), path);
	SECItem item = {siBuffer, data[next], (unsigned)fread(data[next], 1, sizeof(data[0]), file)};
	next++;
	fclose(file);
	return item;
}

static void use_certificate(PRFileDesc *model, char **files)
{
	SECItem certificate_file = read_file(files[0]), key_file = read_file(files[1]);
	CERTCertificate *certificate =
	    must(CERT_NewTempCertificate(CERT_GetDefaultCertDB(), &certificate_file, NULL, PR_FALSE, PR_TRUE), files[0]);
	SECKEYPrivateKey *key = NULL;
	PK11SlotInfo *slot = PK11_GetInternalKeySlot();
	SECItem none = {0};
	succeed(PK11_ImportDERPrivateKeyInfoAndReturnKey(slot, &key_file, &none, NULL, PR_FALSE, PR_FALSE, KU_ALL, &key,
							 NULL),
		files[1]);
	succeed(SSL_ConfigServerCert(model, certificate, key, NULL, 0), "SSL_ConfigServerCert");
}

static void allow_early_data(PRFileDesc *model)
{
	SSLAntiReplayContext *context;
	succeed(SSL_ConfigServerSessionIDCache(0, 0, 0, "."), "SSL_ConfigServerSessionIDCache");
	succeed(SSL_OptionSet(model, SSL_ENABLE_SESSION_TICKETS, PR_TRUE), "SSL_ENABLE_SESSION_TICKETS");
	succeed(SSL_OptionSet(model, SSL_ENABLE_0RTT_DATA, PR_TRUE), "SSL_ENABLE_0RTT_DATA");
	/* It refuses all early data in its first window of time, which is over by now. */
	succeed(SSL_CreateAntiReplayContext(PR_Now() - WINDOW, WINDOW, 7, 14, &context), "an anti-replay context");
	succeed(SSL_SetAntiReplayContext(model, context), "SSL_SetAntiReplayContext");
}

static void be_server(char **files, char *body)
{
	PRNetAddr address;
	PRFileDesc *model = must(SSL_ImportFD(NULL, PR_NewTCPSocket()), "SSL_ImportFD");
	PRFileDesc *listener = must(PR_NewTCPSocket(), "PR_NewTCPSocket");
	use_certificate(model, files);
	if (is("early"))
		allow_early_data(model);
	else
		succeed(SSL_ConfigServerSessionIDCache(0, 0, 0, "."), "SSL_ConfigServerSessionIDCache");
	PR_InitializeNetAddr(PR_IpAddrLoopback, 0, &address);
	succeed(PR_Bind(listener, &address), "PR_Bind");
	succeed(PR_Listen(listener, 5), "PR_Listen");
	succeed(PR_GetSockName(listener, &address), "PR_GetSockName");
	printf("%d\n", PR_ntohs(address.inet.port));
	fflush(stdout);
	for (;;) {
		PRFileDesc *client = must(PR_Accept(listener, NULL, PR_INTERVAL_NO_TIMEOUT), "PR_Accept");
		client = must(SSL_ImportFD(model, client), "SSL_ImportFD");
		succeed(SSL_ResetHandshake(client, PR_TRUE), "SSL_ResetHandshake");
		client = with_layer(client);
		answer(client, body);
		PR_Close(client);
	}
}

int main(int count, char **arguments)
{
	char *body = must(malloc(MOST_BODY), "malloc");
	way = arguments[2];
	succeed(NSS_NoDB_Init(NULL), "NSS_NoDB_Init");
	pass_plaintext();
	if (!strcmp(arguments[1], "client"))
		be_client(arguments + 3, body);
	else
		be_server(arguments + 3, body);
	return 0;
}
