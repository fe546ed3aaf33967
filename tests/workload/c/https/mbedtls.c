/* Mbed TLS, compiled with the headers of its release.
 *
 * plain  mbedtls_ssl_write and mbedtls_ssl_read
 */
#include "end.h"

#include <mbedtls/ctr_drbg.h>
#include <mbedtls/entropy.h>
#include <mbedtls/error.h>
#include <mbedtls/net_sockets.h>
#include <mbedtls/ssl.h>
#include <mbedtls/version.h>
#include <stdio.h>
#include <stdlib.h>

#if MBEDTLS_VERSION_MAJOR >= 3
#include <psa/crypto.h>
#endif

static mbedtls_ssl_config config;
static mbedtls_x509_crt certificate;
static mbedtls_pk_context key;
static mbedtls_entropy_context entropy;
static mbedtls_ctr_drbg_context random_numbers;

struct end {
	mbedtls_ssl_context ssl;
	mbedtls_net_context socket;
};

static void check(int result, const char *what)
{
	if (result) {
		fprintf(stderr, "-0x%x\n", -result);
		fail(what);
	}
}

void end_setup(const struct setup *setup)
{
	int is_server = setup->key != 0;
	mbedtls_ssl_config_init(&config);
	mbedtls_x509_crt_init(&certificate);
	mbedtls_pk_init(&key);
	mbedtls_entropy_init(&entropy);
	mbedtls_ctr_drbg_init(&random_numbers);
	check(mbedtls_ctr_drbg_seed(&random_numbers, mbedtls_entropy_func, &entropy, 0, 0), "random numbers");
	check(mbedtls_x509_crt_parse_file(&certificate, setup->certificate), "the certificate");
#if MBEDTLS_VERSION_MAJOR >= 3
	check(psa_crypto_init(), "psa_crypto_init");
	if (is_server)
		check(mbedtls_pk_parse_keyfile(&key, setup->key, 0, mbedtls_ctr_drbg_random, &random_numbers),
		      "the key");
#else
	if (is_server)
		check(mbedtls_pk_parse_keyfile(&key, setup->key, 0), "the key");
#endif
	check(mbedtls_ssl_config_defaults(&config, is_server ? MBEDTLS_SSL_IS_SERVER : MBEDTLS_SSL_IS_CLIENT,
					  MBEDTLS_SSL_TRANSPORT_STREAM, MBEDTLS_SSL_PRESET_DEFAULT),
	      "the configuration");
	mbedtls_ssl_conf_rng(&config, mbedtls_ctr_drbg_random, &random_numbers);
	if (is_server)
		check(mbedtls_ssl_conf_own_cert(&config, &certificate, &key), "the certificate");
	else
		mbedtls_ssl_conf_ca_chain(&config, &certificate, 0);
}

void *end_open(int fd)
{
	struct end *end = calloc(1, sizeof(*end));
	mbedtls_ssl_init(&end->ssl);
	end->socket.fd = fd;
	check(mbedtls_ssl_setup(&end->ssl, &config), "mbedtls_ssl_setup");
	check(mbedtls_ssl_set_hostname(&end->ssl, "localhost"), "mbedtls_ssl_set_hostname");
	mbedtls_ssl_set_bio(&end->ssl, &end->socket, mbedtls_net_send, mbedtls_net_recv, 0);
	check(mbedtls_ssl_handshake(&end->ssl), "the handshake");
	return end;
}

static long outcome(int result)
{
	switch (result) {
	case MBEDTLS_ERR_SSL_WANT_READ:
	case MBEDTLS_ERR_SSL_WANT_WRITE:
#ifdef MBEDTLS_ERR_SSL_RECEIVED_NEW_SESSION_TICKET
	case MBEDTLS_ERR_SSL_RECEIVED_NEW_SESSION_TICKET:
#endif
		return 0;
	default:
		return result > 0 ? result : -1;
	}
}

long end_write(void *end, const char *data, size_t size)
{
	return outcome(mbedtls_ssl_write(&((struct end *)end)->ssl, (const unsigned char *)data, size));
}

long end_read(void *end, char *data, size_t size)
{
	return outcome(mbedtls_ssl_read(&((struct end *)end)->ssl, (unsigned char *)data, size));
}

void end_close(void *end)
{
	mbedtls_ssl_close_notify(&((struct end *)end)->ssl);
	mbedtls_ssl_free(&((struct end *)end)->ssl);
	free(end);
}
