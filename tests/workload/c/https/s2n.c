/* s2n-tls, compiled with its header.
 *
 * plain   s2n_send and s2n_recv
 * list    s2n_sendv
 * offset  s2n_sendv_with_offset, with a part of the list left out
 */
#include "end.h"

#include <s2n.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>

#define LEFT_OUT 1000

static struct s2n_config *config;
static struct setup own;

static void check(int result, const char *what)
{
	if (result < 0) {
		fprintf(stderr, "%s\n", s2n_strerror(s2n_errno, "EN"));
		fail(what);
	}
}

static char *read_text(const char *path)
{
	char *text = calloc(1, 1 << 16);
	FILE *file = fopen(path, "r");
	if (!file || !fread(text, 1, (1 << 16) - 1, file))
		fail(path);
	fclose(file);
	return text;
}

void end_setup(const struct setup *setup)
{
	own = *setup;
	check(s2n_init(), "s2n_init");
	config = s2n_config_new();
	if (setup->key) {
		struct s2n_cert_chain_and_key *chain = s2n_cert_chain_and_key_new();
		check(s2n_cert_chain_and_key_load_pem(chain, read_text(setup->certificate), read_text(setup->key)),
		      "the certificate");
		check(s2n_config_add_cert_chain_and_key_to_store(config, chain), "the certificate");
	} else {
		check(s2n_config_set_verification_ca_location(config, setup->certificate, 0), "the certificate");
	}
}

void *end_open(int fd)
{
	s2n_blocked_status blocked;
	struct s2n_connection *connection = s2n_connection_new(own.key ? S2N_SERVER : S2N_CLIENT);
	check(s2n_connection_set_config(connection, config), "the configuration");
	check(s2n_connection_set_fd(connection, fd), "s2n_connection_set_fd");
	check(s2n_connection_set_blinding(connection, S2N_SELF_SERVICE_BLINDING), "blinding");
	if (!own.key)
		check(s2n_set_server_name(connection, "localhost"), "the name");
	check(s2n_negotiate(connection, &blocked), "the handshake");
	return connection;
}

static long outcome(ssize_t result)
{
	if (result > 0)
		return result;
	return result < 0 && s2n_error_get_type(s2n_errno) == S2N_ERR_T_BLOCKED ? 0 : -1;
}

/* Write a list of buffers, and before it `left_out` bytes that do not count. */
static ssize_t write_list(void *end, const char *data, size_t size, size_t left_out)
{
	static char others[LEFT_OUT];
	s2n_blocked_status blocked;
	size_t first = size / 3;
	struct iovec list[] = {
	    {others, left_out / 2}, {others, left_out - left_out / 2},	    {(void *)data, first},
	    {(void *)data, 0},	    {(void *)(data + first), size - first},
	};
	if (left_out)
		return s2n_sendv_with_offset(end, list, 5, left_out, &blocked);
	return s2n_sendv(end, list + 2, 3, &blocked);
}

long end_write(void *end, const char *data, size_t size)
{
	s2n_blocked_status blocked;
	if (is(own.way, "plain"))
		return outcome(s2n_send(end, data, size, &blocked));
	return outcome(write_list(end, data, size, is(own.way, "offset") ? LEFT_OUT : 0));
}

long end_read(void *end, char *data, size_t size)
{
	s2n_blocked_status blocked;
	return outcome(s2n_recv(end, data, size, &blocked));
}

void end_close(void *end)
{
	s2n_blocked_status blocked;
	s2n_shutdown(end, &blocked);
	s2n_connection_free(end);
}
